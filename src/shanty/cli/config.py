"""``shanty config``: a commented run.toml with every default."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, get_args

import typer

from shanty.cli.settings import hint_of
from shanty.spec.config import RunConfig
from shanty.spec.recipe import recipe_for, resolve

EXAMPLES = """\b
Examples:
  shanty config > run.toml
  shanty config --recipe finetune > run.toml
  shanty train photos --config run.toml --set optim.lr=0.001
"""

_HEAD = """# Settings of one training. Use: shanty train DATA --config run.toml
# What is not named here keeps its default. An option such as --epochs 20 or
# --set optim.lr=0.001 is stronger than this file.
# "# name = value" is chosen automatically; the value shown is the one that the
# recipe {recipe!r} takes at this batch. Remove the # to fix it.
"""


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """Print a commented run.toml with every setting and its default."""

    recipe: Annotated[
        Literal["scratch", "finetune"],
        typer.Option(help="Show the automatic values of this recipe."),
    ] = "scratch"


def run(options: ConfigOptions) -> int:
    """Print the file; the exit code is 0."""
    typer.echo(render(options.recipe), nl=False)
    return 0


def render(recipe: str = "scratch") -> str:
    """The commented file as text. Parsed again it gives exactly the defaults."""
    start = RunConfig()
    if recipe == "finetune":
        start = replace(start, model=replace(start.model, weights="FILE.safetensors"))
    lines = [_HEAD.format(recipe=recipe_for(start).name)]
    return "\n".join(lines + _section(RunConfig(), resolve(start), ""))


def _section(default: Any, resolved: Any, prefix: str) -> list[str]:
    """Plain keys first, then the sections: TOML wants them in this order."""
    lines: list[str] = []
    for item in fields(default):
        if not is_dataclass(getattr(default, item.name)):
            lines += _entry(prefix + item.name, item.metadata, default, resolved)
    for item in fields(default):
        inner = getattr(default, item.name)
        if is_dataclass(inner):
            lines += ["", _comment(item.metadata["help"]), f"[{item.name}]", ""]
            lines += _section(inner, getattr(resolved, item.name), f"{prefix}{item.name}.")
    return lines


def _entry(dotted: str, metadata: Any, default: Any, resolved: Any) -> list[str]:
    name = dotted.rsplit(".", 1)[-1]
    value, auto = getattr(default, name), getattr(resolved, name)
    allowed = _allowed(dotted, metadata)
    lines = [_comment(metadata["help"])] + ([f"#   {allowed}"] if allowed else [])
    if value is None:
        shown = "auto" if auto is None else auto
        return [*lines, f"# {name} = {_toml(shown)}", ""]
    return [*lines, f"{name} = {_toml(value)}", ""]


def _comment(text: str) -> str:
    return textwrap.fill(text, 78, initial_indent="# ", subsequent_indent="# ")


def _allowed(dotted: str, metadata: Any) -> str:
    """The choices, or the limits, of a setting."""
    hint = hint_of(dotted)
    inner = [word for part in get_args(hint) for word in get_args(part)]  # Literal[...] | None
    choices = [word for word in (*get_args(hint), *inner) if isinstance(word, str)]
    if choices:
        return "one of: " + ", ".join(choices)
    low, high = metadata.get("low"), metadata.get("high")
    if low is None and high is None:
        return ""
    if high is None or high > 1e9:
        return f"at least {low:g}"
    return f"{low:g} to {high:g}"


def _toml(value: Any) -> str:
    """A bool, number or text as TOML writes it."""
    return json.dumps(value, ensure_ascii=False)

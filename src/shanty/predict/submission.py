"""The submission file: planned before predicting, rendered and written after.

    layout = plan_submission(images, classes, template)   # refuses whatever does not fit
    ... predict layout.paths ...
    write_submission(path, render(layout, probabilities, classes), force=False)

Everything that could be wrong with ids, columns, names and encoding is found by the first line,
before an image is decoded. ``docs/submission.md`` states the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shanty.predict.layout import Layout
from shanty.predict.names import file_name
from shanty.predict.render import fallback_row, render
from shanty.predict.rows import (
    Listing,
    files_of_folder,
    files_of_listing,
    ids_of_folder,
    list_table,
    refuse_repeats,
)
from shanty.predict.target import check_target, write_submission
from shanty.predict.template import understand
from shanty.scan.dataset import ImageList
from shanty.scan.tables import read_table

__all__ = [
    "Layout",
    "check_target",
    "fallback_row",
    "plan_submission",
    "render",
    "write_submission",
]


def plan_submission(
    images: ImageList,
    classes: Sequence[str],
    template: Path | None = None,
    table: Path | None = None,
) -> Layout:
    """Decide every row and column of a submission.

    ``classes`` are the class names of the training. ``template`` is the contest's sample file;
    without one the header is ``id,label``. ``table`` lists the images (an id and a path column)
    where they are not simply all files of the folder.

    Raises:
        RefusedError: template, table, folder and classes do not fit together; the names are told.
        UsageError: a file cannot be read as a table.
    """
    listing = list_table(read_table(table), images) if table else None
    if template is None:
        return _plain(images, classes, listing)
    sample = read_table(template)
    source = file_name(sample)
    question = understand(sample, classes)
    ids = tuple(row[question.id_index] for row in sample.rows)
    refuse_repeats(ids, source)
    if listing:
        paths = files_of_listing(ids, listing, source)
    else:
        paths = files_of_folder(ids, images, source)
    return Layout(
        ids=ids,
        paths=paths,
        kind=question.kind,
        id_column=sample.header[question.id_index],
        columns=sample.header,
        class_of_column=question.class_of_column,
        text_of_class=question.text_of_class,
        encoding=sample.encoding,
        newline=sample.newline,
        delimiter=sample.delimiter,
        final_newline=sample.final_newline,
        notes=question.notes,
    )


def _plain(images: ImageList, classes: Sequence[str], listing: Listing | None) -> Layout:
    """Without a template: ``id,label`` in UTF-8, in the order of the table or the folder."""
    return Layout(
        ids=tuple(listing.files) if listing else ids_of_folder(images.paths),
        paths=tuple(listing.files.values()) if listing else images.paths,
        kind="label",
        id_column="id",
        columns=("id", "label"),
        text_of_class=tuple((name, name) for name in classes),
    )

"""Reading events back: whole files, or following them while they grow."""

from __future__ import annotations

from pathlib import Path

from shanty.record.events import Event, from_line


def parse(text: str) -> list[Event]:
    """Every whole event in ``text``; a torn or foreign line is passed over."""
    events = []
    for line in text.split("\n"):  # not splitlines: a file's name may hold U+2028 or U+0085
        try:
            events.append(from_line(line))
        except ValueError:
            continue
    return events


def read_all(folder: Path) -> list[Event]:
    """All events of a run, oldest first (files of one machine share its monotonic clock)."""
    return Follower(folder).poll()


class Follower:
    """Remembers how far each event file was read; ``poll`` returns what is new, merged by time."""

    def __init__(self, folder: Path, *, from_end: bool = False) -> None:
        self.folder = folder
        self._read: dict[Path, int] = {}
        if from_end:
            self._read = {p: p.stat().st_size for p in folder.glob("*.jsonl")}

    def poll(self) -> list[Event]:
        """New whole events since the last call."""
        events: list[Event] = []
        for path in sorted(self.folder.glob("*.jsonl")):
            events += self._new_of(path)
        return sorted(events, key=lambda e: (e.gen, e.t))

    def _new_of(self, path: Path) -> list[Event]:
        start = self._read.get(path, 0)
        with path.open("rb") as file:
            file.seek(start)
            data = file.read()
        whole = data.rfind(b"\n") + 1  # a torn tail stays for the next poll
        self._read[path] = start + whole
        return parse(data[:whole].decode("utf-8", "surrogateescape"))

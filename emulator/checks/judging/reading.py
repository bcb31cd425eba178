"""Read journals from files: one, several of one machine merged by time, or folders of them.

    for entry in read_journals([Path("journals/")]): ...

A line that is no fact of this emulator raises ``BadJournal``, which names the file, the line and
the remedy; with a ``Skipped`` the line is counted there and reading continues.

The journal of a scenario's run is one file, which begins with ``RunStarted``.  Two runs cannot be
merged: their times are not of the same machine.  ``runs_at`` separates them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Union

import msgspec

from rocketmq_emulator.facts import SCHEMA_VERSION, RunStarted, all_facts
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.text.values import natural

if TYPE_CHECKING:

    class ReadEntry(Entry, frozen=True):
        """An entry of a journal file; its fact is any known kind."""

else:
    ReadEntry = msgspec.defstruct(
        "ReadEntry",
        [("fact", Union[all_facts()])],  # noqa: UP007  # made at run time
        bases=(Entry,),
        frozen=True,
        gc=False,
        module=__name__,
    )

CHUNK_BYTES = 1 << 18
LINE_BYTES_MAX = 1 << 26  # a longer line is not from a journal
PLACES_MAX = 10  # places that a Skipped names
RUNS_NAMED_MAX = 3  # in an error

_decode = msgspec.json.Decoder(ReadEntry)


class BadJournal(DamagedData):
    """A file or line that is not a journal, or cannot be read.

    *file* and *line* are the place; line 0 is the file as a whole.
    """

    def __init__(self, file: str, line: int, what: str) -> None:
        self.file, self.line, self.what = file, line, what
        super().__init__(f"{file}, line {line}: {what}" if line else f"{file}: {what}")


class MoreThanOneRun(BadJournal):
    """Several runs were named where one is needed.  *runs*: the files of each."""

    def __init__(self, path: str, runs: Sequence[Sequence[Path]]) -> None:
        self.runs = runs
        shown = ", ".join(str(files[0]) for files in runs[:RUNS_NAMED_MAX])
        more = ", …" if len(runs) > RUNS_NAMED_MAX else ""
        super().__init__(path, 0, f"these are {len(runs)} runs: name one of {shown}{more}")


class Skipped:
    """Counts the lines that could not be read, and keeps the first places.

    ``since_us``: entries before that moment were read, of all files.
    """

    def __init__(self) -> None:
        self.count = 0
        self.places: list[BadJournal] = []
        self.since_us = 0

    def add(self, place: BadJournal, since_us: int = 0) -> None:
        """Count one more; *since_us* is the time of the line before it in the same file."""
        self.since_us = min(self.since_us, since_us) if self.count else since_us
        self.count += 1
        if len(self.places) < PLACES_MAX:
            self.places.append(place)


def read_journals(paths: Sequence[Path], skipped: Skipped | None = None) -> Iterator[Entry]:
    """The entries of all *paths*, merged by time; a folder stands for its ``*.jsonl`` files
    and its rotated ones (``*.jsonl.1``).

    Raises ``BadJournal``; with *skipped* only for a path that has no journal at all, and
    ``MoreThanOneRun``.
    """
    files = journal_files(paths)
    if len(files) == 1:
        return _entries_of(files[0], skipped)
    if len(runs := _runs_of(files)) > 1:
        raise MoreThanOneRun(str(paths[0]), runs)
    journals = [_with_times(_entries_of(file, skipped)) for file in files]
    return (entry for *_, entry in heapq.merge(*journals))


def readable_entries(paths: Sequence[Path], skipped: Skipped) -> Iterator[Entry]:
    """``read_journals`` without unreadable lines, which *skipped* counts.

    Raises ``BadJournal`` also if no line can be read.
    """
    entry = None
    for entry in read_journals(paths, skipped):
        yield entry
    if entry is None and skipped.count:
        raise skipped.places[0]


def journal_files(paths: Sequence[Path]) -> list[Path]:
    """The files that *paths* stand for.  Raises ``BadJournal`` if one stands for none."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob("*.jsonl*"))  # FILE.1 was written before FILE
            if not found:
                raise BadJournal(str(path), 0, "this folder has no journals (*.jsonl)")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise BadJournal(str(path), 0, "there is no such file or folder")
    files = list(dict.fromkeys(files))
    written = [file for file in files if file.stat().st_size]
    if files and not written:
        raise BadJournal(str(files[0]), 0, "the file is empty: nothing was written to it")
    return written


def runs_at(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each run in *paths*, in the order of their names, seed 2 before seed 10.

    Files of a cluster, which has no ``RunStarted``, are one run.  Raises ``BadJournal``.
    """
    return _runs_of(journal_files(paths))


def _runs_of(files: Sequence[Path]) -> list[list[Path]]:
    beginnings = [file for file in files if _begins_run(file)]
    if len(beginnings) < 2:  # journals of nodes beside that of a run belong to it
        return [list(files)] if files else []
    runs = [[file] for file in sorted(beginnings, key=lambda file: natural(str(file)))]
    others = [file for file in files if file not in beginnings]
    return [*runs, others] if others else runs


def _begins_run(file: Path) -> bool:
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError), file.open("rb") as lines:
        first = msgspec.json.decode(lines.readline(LINE_BYTES_MAX), type=_AnyEntry)
        return first.fact.kind == RunStarted.__name__
    return False


def entries_in(
    lines: Iterable[bytes], name: str = "journal", skipped: Skipped | None = None
) -> Iterator[Entry]:
    """The entries of *lines*, each a complete line; errors name *name* as the file."""
    yield from _one_by_one(lines, name, 1, skipped)


def _with_times(entries: Iterator[Entry]) -> Iterator[tuple[int, str, int, Entry]]:
    """Sort keys for a merge; entries are never compared: (node, number) is unique."""
    return ((entry.mono_us, entry.node, entry.seq, entry) for entry in entries)


def _entries_of(path: Path, skipped: Skipped | None) -> Iterator[Entry]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadJournal(str(path), 0, f"cannot be read ({error.strerror})") from error
    with file:
        yield from _entries(file, str(path), skipped)


def _entries(file: IO[bytes], name: str, skipped: Skipped | None) -> Iterator[Entry]:
    """Decode many lines at a time: one decoder call for them is a third faster."""
    number, last_us = 1, 0
    while lines := file.readlines(CHUNK_BYTES):
        try:
            entries = _decode.decode_lines(b"".join(lines))
            is_plain = len(entries) == len(lines)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            is_plain = False
        if is_plain:
            yield from entries
            last_us = entries[-1].mono_us
        else:
            for entry in _one_by_one(lines, name, number, skipped, last_us):
                last_us = entry.mono_us
                yield entry
        number += len(lines)


def _one_by_one(
    lines: Iterable[bytes], name: str, first: int, skipped: Skipped | None, last_us: int = 0
) -> Iterator[Entry]:
    for number, line in enumerate(lines, first):
        if line.isspace():
            continue
        try:
            entry = _decode.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            place = BadJournal(name, number, _reason_unreadable(line, number, error))
            if skipped is None:
                raise place from None
            skipped.add(place, last_us)
            continue
        last_us = entry.mono_us
        yield entry


class _LineKind(msgspec.Struct):
    kind: str
    schema: int = 0


class _AnyEntry(msgspec.Struct):
    seq: int
    node: str
    fact: _LineKind


def _reason_unreadable(line: bytes, number: int, error: Exception) -> str:
    try:
        found = msgspec.json.decode(line, type=_AnyEntry)
    except msgspec.ValidationError as deeper:
        return f"this is no journal of this emulator: {deeper}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _reason_not_json(line, number, error)
    if found.fact.schema > SCHEMA_VERSION:
        return (
            f"this journal has facts of schema {found.fact.schema}, and this emulator reads up to "
            f"{SCHEMA_VERSION}: use the emulator that wrote it"
        )
    if found.fact.kind not in {kind.__name__ for kind in all_facts()}:
        return f"{found.fact.kind} is no fact of schema {SCHEMA_VERSION}: a newer emulator's?"
    return f"a {found.fact.kind} that is not as schema {SCHEMA_VERSION} says: {error}"


def _reason_not_json(line: bytes, number: int, error: Exception) -> str:
    if not line.endswith(b"\n"):
        return (
            "the last line is cut off: its writer was killed, or still writes; the lines before "
            "it can be read if the reader skips lines that it cannot read"
        )
    if number == 1:
        return f"this is no journal: its first line is not JSON ({error})"
    return f"this line is damaged ({error})"

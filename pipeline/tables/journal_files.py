"""Finds journals, and the run of each, by reading their first lines only.

The journal of a scenario's run is one file, and its first fact, RunStarted, describes the run.
Journals of a running cluster (``rmqemu up --journal DIR``) have no RunStarted: those of one
folder are one run, of the scenario ``cluster``.  A file without a fact in its first lines is
foreign: it is listed in the table ``rejected`` and not read.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from rocketmq_emulator.facts import SCHEMA_VERSION, RunStarted
from rocketmq_emulator.protocol.error_families import Misuse

NO_SCENARIO = "cluster"
HEAD_LINES = 5  # one of these must be a fact
HEAD_BYTES_MAX = 1 << 24  # of one line: the first line has the whole plan
DIGEST_CHARS = 12  # of a run's id, in hexadecimal


class NoJournals(Misuse):
    """There is no journal to read; nothing was written.  The text names the path."""


class JournalRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as described by its journal's head; or a foreign file (``why`` is not empty)."""

    run: str  # see ``run_id``
    scenario: str
    parameters: str = ""  # as JSON
    release: str = ""
    seed: int | None = None
    code_version: str = ""
    world: str = ""
    schema: int = SCHEMA_VERSION  # of its facts
    files: tuple[str, ...]  # absolute paths
    bytes: int  # of all files
    why: str = ""  # the reason why it cannot be read


def run_id(started: RunStarted) -> str:
    """``r`` and 12 hexadecimal digits of a SHA-256 over everything that determines the run.

    That is scenario, parameters, release, seed, code version and world: a repeated run has the
    same id.
    """
    parameters = msgspec.json.decode(started.parameters or "{}")
    return _digest(
        started.scenario,
        parameters,
        started.release,
        started.seed,
        started.code_version,
        started.world,
    )


def runs_in(paths: Iterable[Path]) -> list[JournalRun]:
    """The runs of all *paths*: files, and folders of ``*.jsonl`` and ``*.jsonl.gz``.

    If a run is there twice, the longer journal counts.  Raises ``NoJournals``.
    """
    found: dict[str, JournalRun] = {}
    of_clusters: dict[tuple[Path, int], list[_UnnamedJournal]] = {}
    for file in _files(paths):
        head = _head(file)
        if isinstance(head, JournalRun):
            _keep(found, head)
        else:
            of_clusters.setdefault((file.parent, head.schema), []).append(head)
    for heads in of_clusters.values():
        _keep(found, _cluster(heads))
    return list(found.values())


def _keep(found: dict[str, JournalRun], run: JournalRun) -> None:
    known = found.get(run.run)
    if known is None or run.bytes > known.bytes:
        found[run.run] = run


# Files ------------------------------------------------------------------------------------


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.glob("*.jsonl*") if each.is_file())
            if not inside:
                raise NoJournals(f"{path}: this folder has no journals (*.jsonl, *.jsonl.gz)")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise NoJournals(f"{path}: there is no such file or folder")
    files = list(dict.fromkeys(file.resolve() for file in files))
    written = [file for file in files if file.stat().st_size]
    if not written:
        what = f"{files[0]}: the file is empty" if files else "no journal was named"
        raise NoJournals(f"{what}: nothing was written to it" if files else what)
    return written


class _Line(msgspec.Struct):
    """The fields of every line in every schema."""

    seq: int
    at_ms: int
    node: str
    fact: msgspec.Raw
    mono_us: int | None = None


class _Kind(msgspec.Struct):
    kind: str
    schema: int = 0


class _UnnamedJournal(msgspec.Struct, frozen=True):
    """A journal without RunStarted."""

    file: Path
    first: bytes
    began: tuple[int, str]  # at_ms, node
    schema: int


def _head(file: Path) -> JournalRun | _UnnamedJournal:
    try:
        lines = list(_first_lines(file))
    except OSError as error:  # a damaged gzip file raises one, too
        return _foreign(file, f"cannot be read ({error.strerror or error})")
    except EOFError:
        return _foreign(file, "the compressed file is cut off")
    for text in lines:
        line, kind = _decoded(text)
        if line is None or kind is None:
            continue
        schema = kind.schema or (1 if line.mono_us is None else SCHEMA_VERSION)
        if schema > SCHEMA_VERSION:
            what = (
                f"facts of schema {schema}, and this emulator reads up to {SCHEMA_VERSION}: use "
                "the emulator that wrote it"
            )
            return _foreign(file, what)
        if kind.kind == RunStarted.__name__:
            return _started(file, bytes(line.fact), schema)
        return _UnnamedJournal(file, text, (line.at_ms, line.node), schema)
    return _foreign(file, f"this is no journal: none of its first {len(lines)} lines is a fact")


def _first_lines(file: Path) -> Iterator[bytes]:
    opening = gzip.open if file.suffix == ".gz" else open
    with opening(file, "rb") as reader:
        for _ in range(HEAD_LINES):
            if line := reader.readline(HEAD_BYTES_MAX):
                yield line


def _decoded(text: bytes) -> tuple[_Line | None, _Kind | None]:
    try:
        line = msgspec.json.decode(text, type=_Line)
        return line, msgspec.json.decode(line.fact, type=_Kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None, None


def _started(file: Path, fact: bytes, schema: int) -> JournalRun:
    try:
        started = msgspec.json.decode(fact, type=RunStarted)
        name = run_id(started)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return _foreign(file, f"its RunStarted is not as schema {SCHEMA_VERSION} says: {error}")
    return JournalRun(
        run=name,
        scenario=started.scenario or NO_SCENARIO,
        parameters=started.parameters,
        release=started.release,
        seed=started.seed,
        code_version=started.code_version,
        world=started.world,
        schema=schema,
        files=(str(file),),
        bytes=file.stat().st_size,
    )


def _cluster(heads: Sequence[_UnnamedJournal]) -> JournalRun:
    """The run of all journals of a folder; its earliest line is its id: files may be added."""
    first = min(heads, key=lambda head: head.began)
    return JournalRun(
        run=_digest(NO_SCENARIO, first.first.decode("utf-8", "replace")),
        scenario=NO_SCENARIO,
        schema=first.schema,
        files=tuple(str(head.file) for head in heads),
        bytes=sum(head.file.stat().st_size for head in heads),
    )


def _foreign(file: Path, why: str) -> JournalRun:
    size = file.stat().st_size
    return JournalRun(
        run=_digest("foreign", str(file)),
        scenario="foreign",
        files=(str(file),),
        bytes=size,
        why=why,
    )


def _digest(*parts: object) -> str:
    text = msgspec.json.encode(parts, order="deterministic")
    return "r" + hashlib.sha256(text).hexdigest()[:DIGEST_CHARS]

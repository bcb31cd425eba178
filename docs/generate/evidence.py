"""docs/evidence.md from docs/evidence.toml: the upstream source for each claim on a release.

python -m docs.generate.evidence
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import msgspec

import rocketmq_emulator.protocol.versions
import rocketmq_emulator.settings.releases
from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.settings.releases import Backported, Release, ReleaseSpan

PAGE = DOCS / "evidence.md"
DATA = DOCS / "evidence.toml"
EVIDENCE = re.compile(r"(?P<release>\d+\.\d+\.\d+) (?P<place>[A-Z]\w*(\.\w+)*): (?P<does>.+)")
MODULES = (rocketmq_emulator.settings.releases, rocketmq_emulator.protocol.versions)


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``before`` and ``after``: "tag Class.method: what it does"; lists if a change has two ends.

    ``test`` is "path::name", or empty; ``why`` is the reason if a claim is not shown.
    """

    claim: str
    before: str | list[str] = []
    after: str | list[str] = []
    test: str = ""
    shown: bool = True
    why: str = ""

    def ends(self) -> list[tuple[str, str]]:
        """The evidence of each end of the change: before it, and with it."""
        return list(zip(_listed(self.before), _listed(self.after), strict=True))


class Behaviour(Row, frozen=True):
    """A row about a ``constant`` of emulator/settings/releases.py or protocol/versions.py."""

    constant: str


class Sentence(Row, frozen=True):
    """A row about a ``place``: a page, or a module of scenarios; it may depend on constants."""

    place: str
    rests_on: list[str] = []


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file; ``without_claims``: places that only mention a release, and why."""

    without_claims: dict[str, str]
    behaviour: list[Behaviour]
    sentence: list[Sentence] = []


class Ends(NamedTuple):
    """The releases in which a behaviour changed, and the module of its constant."""

    module: str
    releases: tuple[Release, ...]


def table(path: Path = DATA) -> Table:
    """The rows of *path*.  Raises ``msgspec.ValidationError``."""
    return msgspec.convert(tomllib.loads(path.read_text()), Table)


def constants() -> dict[str, Ends]:
    """Every constant that names a change, in the order of its module."""
    found: dict[str, Ends] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            is_own = name.isupper() and not re.match(r"R_\d", name) and name not in found
            if is_own and isinstance(value, Release):
                found[name] = Ends(module.__name__, (value,))
            elif is_own and isinstance(value, Backported | ReleaseSpan):
                found[name] = Ends(module.__name__, tuple(value))
    return found


def behaviours_text() -> str:
    """One row for each constant, by module."""
    known = constants()
    head = [
        "| constant | change | before | since | tested by |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows = (
        f"| `{row.constant}` | {row.claim} | {_cell(row, 0)} | {_cell(row, 1)} | {_test(row)} |"
        for row in sorted(table().behaviour, key=lambda row: list(known).index(row.constant))
    )
    return "\n".join([*head, *rows])


def sentences_text() -> str:
    """One row for each sentence, by place."""
    head = ["| page | claim | evidence | tested by |", "| --- | --- | --- | --- |"]
    rows = (
        f"| {_place(row)} | {row.claim} | {_evidence(row)} | {_test(row)} |"
        for row in sorted(table().sentence, key=lambda row: row.place)
    )
    return "\n".join([*head, *rows])


def counts_text() -> str:
    """How many claims there are, how many have a test, and how many cannot be shown."""
    rows = table()
    every: list[Row] = [*rows.behaviour, *rows.sentence]
    held = sum(bool(row.test) for row in every)
    hidden = sum(not row.shown for row in every)
    return (
        f"{len(rows.behaviour)} behaviours and {len(rows.sentence)} sentences; "
        f"{held} have their own test, {hidden} cannot be shown."
    )


def _listed(ends: str | list[str]) -> list[str]:
    return [ends] if isinstance(ends, str) else ends


def _cell(row: Behaviour, side: int) -> str:
    if not row.shown and not row.ends()[0][side]:
        return f"not shown: {row.why}"
    return "<br>".join(_marked(pair[side]) for pair in row.ends())


def _evidence(row: Sentence) -> str:
    parts = [f"`{name}`" for name in row.rests_on]
    parts += [_marked(text) for pair in row.ends() for text in pair if text]
    parts += [] if row.shown else [f"not shown: {row.why}"]
    return "<br>".join(parts)


def _marked(text: str) -> str:
    """*text* with its class and method as inline code."""
    found = EVIDENCE.fullmatch(text)
    if found is None:
        return text
    return f"{found['release']} `{found['place']}`: {found['does']}"


def _place(row: Sentence) -> str:
    name = row.place.removeprefix("docs/")
    return f"[{name}]({name})" if name != row.place else f"[{name}](../{name})"


def _test(row: Row) -> str:
    path, _, name = row.test.partition("::")
    return f"[`{name}`](../{path})" if row.test else ""


if __name__ == "__main__":
    write_section(PAGE, "counts", counts_text())
    write_section(PAGE, "behaviours", behaviours_text())
    write_section(PAGE, "sentences", sentences_text())

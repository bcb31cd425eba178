"""What programs of SDKs could do with each cluster: ``tests/golden/compatibility.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tests.compatibility.features import TITLES
from tests.compatibility.programs import PROGRAMS
from tests.support.paths import GOLDEN

RECORD = GOLDEN / "compatibility.json"
WORKS = "works"


class Column(NamedTuple):
    """A cluster of the page."""

    title: str
    real: bool
    release: str


COLUMNS = {
    "real-4.9.7": Column("real 4.9.7", True, "4.9.7"),
    "real-5.3.3": Column("real 5.3.3", True, "5.3.3"),
    "ours-4.9.7": Column("ours as 4.9.7", False, "4.9.7"),
    "ours-5.3.3": Column("ours as 5.3.3", False, "5.3.3"),
}


class Record(msgspec.Struct):
    """Outcomes by SDK, feature and column, and the commands that started the clusters.

    An outcome is "works" or "fails: REASON".  A feature that an SDK does not have is absent.
    """

    commands: dict[str, str] = {}
    sdks: dict[str, dict[str, dict[str, str]]] = {}

    def add(self, sdk: str, column: str, outcomes: Mapping[str, str]) -> None:
        """Put *outcomes*, by feature, in place of those that this column has."""
        rows = self.sdks.setdefault(sdk, {})
        for feature, outcome in outcomes.items():
            rows.setdefault(feature, {})[column] = outcome

    def replace(self, sdk: str, column: str, outcomes: Mapping[str, str]) -> None:
        """Make *outcomes* all that *column* has of the SDK."""
        rows = self.sdks.setdefault(sdk, {})
        for row in rows.values():
            row.pop(column, None)
        self.add(sdk, column, outcomes)
        self.sdks[sdk] = {feature: row for feature, row in rows.items() if row}

    def worse(self, sdk: str, release: str) -> list[str]:
        """The features that work with the real *release*, and do not with ours."""
        return [
            feature
            for feature, row in self.sdks[sdk].items()
            if row[f"real-{release}"] == WORKS != row[f"ours-{release}"]
        ]

    def lost(self, sdk: str, column: str, now: Mapping[str, str]) -> list[str]:
        """The features that work in the record of *column*, and did not in *now*."""
        rows = self.sdks[sdk]
        return [
            f"{feature}: {now.get(feature, 'absent')}"
            for feature, row in rows.items()
            if row[column] == WORKS != now.get(feature)
        ]


def recorded() -> Record:
    """The record; an empty one if there is none."""
    return msgspec.json.decode(RECORD.read_bytes(), type=Record) if RECORD.exists() else Record()


def keep(record: Record) -> None:
    """Write *record*, in the order of the page."""
    sdks = {
        sdk: {
            feature: {
                column: rows[feature][column] for column in COLUMNS if column in rows[feature]
            }
            for feature in TITLES
            if feature in rows
        }
        for sdk in PROGRAMS
        if (rows := record.sdks.get(sdk)) is not None
    }
    commands = {name: record.commands[name] for name in COLUMNS if name in record.commands}
    text = msgspec.json.format(msgspec.json.encode(Record(commands, sdks)), indent=1)
    RECORD.write_bytes(text + b"\n")

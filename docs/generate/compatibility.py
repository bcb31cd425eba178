"""The tables of docs/compatibility.md: which features of an SDK work with which cluster.

``python -m tests.compatibility.run`` has recorded the outcomes; no program is run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from docs.generate.sections import DOCS, write_section
from tests.compatibility.features import FEATURES, NOTES, NOTES_OF_SDKS, TITLES
from tests.compatibility.programs import PROGRAMS
from tests.compatibility.record import COLUMNS, WORKS, Record, recorded

PAGE = DOCS / "compatibility.md"


def summary_text(record: Record) -> str:
    """A row for each SDK with counts, and the features that only the real one has."""
    head = " | ".join(column.title for column in COLUMNS.values())
    lines = [f"| SDK | package | features | {head} |", f"|---|---|{'---|' * (len(COLUMNS) + 1)}"]
    for sdk, rows in record.sdks.items():
        program = PROGRAMS[sdk]
        counts = (sum(row[column] == WORKS for row in rows.values()) for column in COLUMNS)
        cells = " | ".join(map(str, counts))
        lines.append(f"| {program.title} | `{program.package}` | {len(rows)} | {cells} |")
    return "\n".join([*lines, "", *_missing_lines(record)])


def _missing_lines(record: Record) -> Iterator[str]:
    """The features that work with a real release and not with ours, and for which SDKs."""
    missing: dict[str, list[str]] = {}
    releases = sorted({column.release for column in COLUMNS.values()})
    for sdk in record.sdks:
        worse = {release: record.worse(sdk, release) for release in releases}
        for feature in TITLES:
            where = [release for release in releases if feature in worse[release]]
            if where:
                place = "" if where == releases else f" as {', '.join(where)}"
                missing.setdefault(feature, []).append(PROGRAMS[sdk].title + place)
    if not missing:
        yield "No feature works with a real RocketMQ only."
        return
    yield "What works with a real RocketMQ and not here:"
    yield ""
    for feature in TITLES:
        if feature in missing:
            yield f"- {TITLES[feature]}{_note(feature)}: {', '.join(missing[feature])}"


def features_text(record: Record) -> str:
    """A table of features for each SDK, and the reasons of those that fail."""
    return "\n\n".join(_sdk_text(sdk, rows) for sdk, rows in record.sdks.items())


def _sdk_text(sdk: str, rows: Mapping[str, Mapping[str, str]]) -> str:
    head = " | ".join(column.title for column in COLUMNS.values())
    lines = [f"### {PROGRAMS[sdk].title}", "", f"| feature | {head} |"]
    lines.append(f"|---|{'---|' * len(COLUMNS)}")
    for section, features in FEATURES.items():
        shown = [feature for feature in features if feature in rows]
        if shown:
            lines.append(f"| **{section}** |{' |' * len(COLUMNS)}")
        for feature in shown:
            marks = ("yes" if rows[feature][column] == WORKS else "no" for column in COLUMNS)
            lines.append(f"| {TITLES[feature]} | {' | '.join(marks)} |")
    return "\n".join([*lines, *_reasons(sdk, rows)])


def _reasons(sdk: str, rows: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The reason of each failure, by feature; features with one reason share a line."""
    groups: dict[object, list[str]] = {}
    for feature, row in rows.items():
        failed = tuple(column for column, outcome in row.items() if outcome != WORKS)
        if failed:
            groups.setdefault((_note(feature, sdk) or feature, failed), []).append(feature)
    if groups:
        yield ""
    for first, *others in groups.values():
        titles = ", ".join(TITLES[feature] for feature in (first, *others))
        yield f"- {titles}{_note(first, sdk)}. {_places(rows[first])}"


def _places(row: Mapping[str, str]) -> str:
    """The clusters by the reason of the failure there."""
    places: dict[str, list[str]] = {}
    for column, outcome in row.items():
        if outcome != WORKS:
            places.setdefault(_reason(outcome), []).append(COLUMNS[column].title)
    return "; ".join(f"{', '.join(where)}: `{why}`" for why, where in places.items())


def _reason(outcome: str) -> str:
    """The reason in *outcome*, without the names of the programs' own exceptions."""
    text = re.sub(r"^fails: (Broken: |IllegalStateException: |AssertionError: )?", "", outcome)
    return text.replace("|", "/").replace("`", "'")


def _note(feature: str, sdk: str = "") -> str:
    note = NOTES_OF_SDKS.get((sdk, feature)) or NOTES.get(feature)
    return f" ({note})" if note else ""


if __name__ == "__main__":
    found = recorded()
    write_section(PAGE, "summary", summary_text(found))
    write_section(PAGE, "features", features_text(found))

"""The table of docs/mqadmin.md: every command that the tests run, in both release lines.

The outputs were recorded from real clusters (``tests/golden``); the differences are listed
beside the tests that compare our cluster with them.  No cluster is started here.
"""

from __future__ import annotations

import json

from docs.generate.sections import DOCS, write_section
from tests.mqadmin.differences import DIFFERENCES

PAGE = DOCS / "mqadmin.md"
GOLDEN = DOCS.parent / "tests" / "golden"
RELEASES = ("4.9.7", "5.3.3")


def commands_text() -> str:
    """The Markdown table, a row for each command line, sorted."""
    lines: dict[str, list[str]] = {}
    for release in RELEASES:
        for command in _recorded(release):
            lines.setdefault(command, []).append(release)
    rows = [
        f"| `{command}` | {', '.join(releases)} | {_compared(command)} |"
        for command, releases in sorted(lines.items(), key=lambda row: row[0].lower())
    ]
    differing = sum(command in DIFFERENCES for command in lines)
    return "\n".join(
        [
            f"{len(lines)} command lines, {len(lines) - differing} with the same output.",
            "",
            "| mqadmin | of | output for this cluster |",
            "|---|---|---|",
            *rows,
        ]
    )


def _compared(command: str) -> str:
    found = DIFFERENCES.get(command)
    if found is None:
        return "same"
    of = "" if len(found.releases) == len(RELEASES) else f"{', '.join(found.releases)}: "
    return f"{of}{found.reason}"


def _recorded(release: str) -> list[str]:
    text = (GOLDEN / f"mqadmin-{release}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["command"] for line in text.splitlines()]


if __name__ == "__main__":
    write_section(PAGE, "commands", commands_text())

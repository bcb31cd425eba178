"""The table of docs/invariants.md: client invariants, with their checkers and tests."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.checks.judging.invariants import INVARIANTS, Invariant

PAGE = DOCS / "invariants.md"
TESTS = DOCS.parent / "tests"
DEFINITION = re.compile(r"^(?:async )?def (test_client_invariant_\w+)", re.MULTILINE)
NUMBERS = re.compile(r"test_client_invariant_(\d\d)(?:_and_(\d\d))?_")


def held_by_tests(folder: Path = TESTS) -> dict[int, list[str]]:
    """By number of an invariant: the sorted names of the tests that check it."""
    found: dict[int, set[str]] = {}
    for path in folder.rglob("test_*.py"):
        for name in DEFINITION.findall(path.read_text()):
            match = NUMBERS.match(name)
            for number in match.groups() if match else ():
                if number is not None:
                    found.setdefault(int(number), set()).add(name)
    return {number: sorted(names) for number, names in found.items()}


def invariants_text() -> str:
    """The Markdown table, a row for each invariant."""
    tests = held_by_tests()
    names = ("", "client invariant", "judged by", "any SDK, by judge", "not shown by facts")
    head = [
        f"| {' | '.join((*names, 'tests of this client'))} |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *(_row(each, tests.get(each.number, [])) for each in INVARIANTS)])


def _row(row: Invariant, tests: list[str]) -> str:
    judges = ", ".join(f"`{name}`" for name in row.checkers)
    sdk_monitors = ", ".join(f"`{name}`" for name in row.sdk_monitors)
    prefix = f"test_client_invariant_{row.number:02}_"
    names = [f"`…{name.removeprefix(prefix)}`" for name in tests]
    cells = (str(row.number), row.text, judges, sdk_monitors, row.unseen, ", ".join(names))
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    write_section(PAGE, "invariants", invariants_text())

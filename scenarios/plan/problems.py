"""Problems of a scenario: place, text, and a suggestion if a name is nearly right.

All problems of a scenario are collected and shown together, each as one line:

    broker_dies.toml:17: timeline.kil: there is no fault or action 'kil'; did you mean kill?

They are shown before anything is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from rocketmq_emulator.protocol.error_families import Misuse

Path: TypeAlias = tuple[str | int, ...]  # of a field: ("timeline", 2, "for")

PROBLEMS_MAX = 20  # shown; the others are only counted


class Problem(NamedTuple):
    """One problem; ``line`` counts from 1, and is 0 without a file."""

    path: Path
    text: str
    line: int = 0

    def shown(self, source: str) -> str:
        """The problem as one line: ``source:line: field: text``."""
        place = f"{source}:{self.line}" if self.line else source
        field = ".".join(part for part in self.path if isinstance(part, str))
        return f"{place}: {field}: {self.text}" if field else f"{place}: {self.text}"


def line_of(path: Path, lines: Mapping[Path, int], otherwise: int) -> int:
    """The line of *path*, or of the nearest part of the plan above it that has one."""
    above = (path[:length] for length in range(len(path), 0, -1))
    return next((lines[part] for part in above if part in lines), otherwise)


class BadScenario(Misuse, ValueError):
    """A scenario that cannot be run; the text has its problems, one a line.

    Nothing was started.  ``problems`` has all of them as values.
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        assert problems, "there is at least one problem"
        self.source, self.problems = source, tuple(problems)
        lines = [problem.shown(source) for problem in problems[:PROBLEMS_MAX]]
        if (more := len(problems) - PROBLEMS_MAX) > 0:
            lines.append(f"{source}: and {more} more")
        super().__init__("\n".join(lines))

"""A planted bug: one function of the emulator, and the text in it that is replaced.

The place is named by file, function and text, not by line numbers, so that a bug still applies
when the code around it changes.  ``make power CHECK=1`` lists the bugs that no longer apply.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Part: TypeAlias = Literal[
    "send",
    "routes",
    "faults table",
    "heartbeats",
    "rebalance",
    "allocation",
    "locks",
    "pull",
    "process queue",
    "offsets",
    "retries",
    "delays",
    "broadcast",
    "lite pull",
    "registration",
    "liveness of NameServer",
    "notification",
    "store",
    "recovery",
    "filters",
]


class Bug(NamedTuple):
    """``does`` is what the code does with the bug, ``breaks`` is the rule that the bug breaks.

    *upstream* is the Java class and method that this function mirrors; *invariants* are numbers of
    the reference, as ``client 43`` or ``server 47``.  *release* is the one that uses
    this code, if only one does.
    """

    name: str
    part: Part
    upstream: str
    does: str
    breaks: str
    file: str
    function: str  # ``Class.method`` or ``function``
    old: str
    new: str
    invariants: tuple[str, ...] = ()
    release: str = ""


class PlaceGone(Exception):
    """A bug does not apply: its text is missing or ambiguous, or the result is invalid."""


def planted(bug: Bug, root: Path) -> str:
    """The text of ``bug.file`` below *root* with the bug in it.  Raises ``PlaceGone``."""
    path = root / bug.file
    if not path.is_file():
        raise PlaceGone(f"{bug.name}: there is no file {bug.file}")
    text = path.read_text()
    begin, end = span_of(bug, text)
    body = text[begin:end]
    if (count := body.count(bug.old)) != 1:
        raise PlaceGone(
            f"{bug.name}: {bug.function} of {bug.file} has the text {bug.old!r} {count} times"
        )
    changed = text[:begin] + body.replace(bug.old, bug.new) + text[end:]
    try:
        ast.parse(changed)
    except SyntaxError as error:
        raise PlaceGone(f"{bug.name}: {bug.file} is invalid Python with it ({error})") from None
    return changed


def span_of(bug: Bug, text: str) -> tuple[int, int]:
    """The start and end of the function in *text*, without decorators.  Raises ``PlaceGone``."""
    nodes: list[ast.stmt] = ast.parse(text).body
    found: ast.stmt | None = None
    for name in bug.function.split("."):
        named = [each for each in nodes if getattr(each, "name", None) == name]
        if not named:
            raise PlaceGone(f"{bug.name}: {bug.file} has no {bug.function}")
        found = named[-1]
        nodes = getattr(found, "body", [])
    assert found is not None
    assert found.end_lineno is not None
    lines = text.splitlines(keepends=True)
    begin = sum(map(len, lines[: found.lineno - 1]))
    return begin, begin + sum(map(len, lines[found.lineno - 1 : found.end_lineno]))

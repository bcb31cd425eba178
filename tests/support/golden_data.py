"""Recorded values: the results of the real classes for an input, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.paths import GOLDEN


def cases(file: str, kind: str, line: str = "4.9") -> list[dict[str, Any]]:
    """The cases of one kind that hold for one release line; "both" holds for either."""
    lines = (line, "both")
    found = [c for c in golden_lines(file) if c["kind"] == kind and c["line"] in lines]
    assert found, f"{file} has no {kind} for {line}"
    return found


def golden_lines(file: str) -> Iterator[dict[str, Any]]:
    """All lines of a file."""
    with (GOLDEN / file).open(encoding="utf-8") as lines:
        for text in lines:
            yield json.loads(text)

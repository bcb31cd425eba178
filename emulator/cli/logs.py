"""Facts for people: the journals of several nodes, followed and rendered as log lines.

A log is read off the journal, never the other way round.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import structlog
import typer

# What waiting consumers do all day: in the journal, but no news.
ROUTINE = ("PullHeld", "PullAnswered")
BAD_NEWS = ("Failed", "Refused", "Expired", "Dropped", "Cut", "Isolated")


class JournalFollower:
    """New entries of every journal in *folder*, merged by time."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._read_to: dict[Path, int] = {}

    def news(self) -> list[dict[str, object]]:
        entries = [
            entry for path in sorted(self._folder.glob("*.jsonl")) for entry in self._of(path)
        ]
        return sorted(entries, key=lambda entry: str(entry["at_ms"]))

    def _of(self, path: Path) -> Iterator[dict[str, object]]:
        with path.open("rb") as file:
            file.seek(self._read_to.get(path, 0))
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to[path] = self._read_to.get(path, 0) + len(whole)
        for line in whole.splitlines():
            yield json.loads(line)


class LogLines:
    """Renders entries of a journal; colours only where somebody looks."""

    def __init__(self, *, colours: bool | None = None) -> None:
        wanted = sys.stderr.isatty() if colours is None else colours
        self._render = structlog.dev.ConsoleRenderer(colors=wanted, pad_event_to=24)

    def line(self, entry: dict[str, object]) -> str:
        fact = entry["fact"]
        assert isinstance(fact, dict)
        at_ms = entry["at_ms"]
        assert isinstance(at_ms, int)
        kind = str(fact["kind"])
        at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
        told = {
            "timestamp": f"{at:%H:%M:%S}.{at_ms % 1000:03}",
            "level": "warning" if any(word in kind for word in BAD_NEWS) else "info",
            "event": f"{entry['node']:<10} {kind}",
            **{name: value for name, value in fact.items() if name != "kind"},
        }
        return str(self._render(None, "", told))

    def show(self, entries: list[dict[str, object]]) -> None:
        for entry in entries:
            if _kind(entry) not in ROUTINE:
                typer.echo(self.line(entry), err=True)


def _kind(entry: dict[str, object]) -> str:
    fact = entry["fact"]
    assert isinstance(fact, dict)
    return str(fact["kind"])

"""The demo's screen: colours say who owns a queue, and whether its broker lives."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from emulator.cli.demo.ledger import Ledger, QueueHistory
from emulator.cli.demo.members import KILLED
from emulator.cli.demo.screen import OWNER_STYLES, DemoScreen
from emulator.facts import Queue

YELLOW, DIM = "\x1b[33m", "\x1b[2m"


class ARun(msgspec.Struct):
    """What a screen reads of a run."""

    ledger: Ledger
    broker_state: dict[str, str]
    now_s: float = 1.0
    lines: int = 10
    events: list = []
    members: dict = {}


@pytest.mark.parametrize(("state", "style"), [("running", YELLOW), (KILLED, DIM)])
def test_the_queues_of_a_dead_broker_look_dead(state, style) -> None:
    ledger = Ledger()
    ledger.queues[Queue("demo", "broker-b", 0)] = QueueHistory(owners=["consumer-a"])
    console = Console(width=90, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(DemoScreen(ARun(ledger, {"broker-b": state})).draw(now_ms=5_000))
    row = next(line for line in console.file.getvalue().splitlines() if "broker-b/0" in line)
    assert f"{style}consumer-a" in row
    assert (YELLOW in row) == (style == YELLOW)


def test_no_two_owners_look_alike_nor_like_nobody() -> None:
    assert len({*OWNER_STYLES.values(), "red"}) == 4

"""Every test of this folder runs in virtual time, which passes only while all tasks wait.

A bench reads trio's clock; a real clock would also advance while a test computes, and more on a
busy machine.  pytest-trio takes a clock from the parameters of a test, not from those of fixtures.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.abc import Clock, Instrument
from trio.testing import MockClock

HERE = Path(__file__).parent


def run_in_virtual_time(
    test: Callable[[], Awaitable[Any]],
    *,
    clock: Clock | None = None,
    instruments: Sequence[Instrument] = (),
) -> Any:
    """``trio.run`` with the *clock* of the test, or else with a ``MockClock``."""
    clock = clock or MockClock(autojump_threshold=0)
    return trio.run(test, clock=clock, instruments=instruments)


@pytest.hookimpl(trylast=True)  # after pytest-trio has marked the tests that it runs
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("trio") is not None:
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time), append=False)

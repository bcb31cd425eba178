"""What tests of scenarios share: processes that run plans take half a second to load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool


@pytest.fixture(scope="session")
def fleet() -> Iterator[RunPool]:
    """For runs of which none has to go wrong in a way of its own."""
    with RunPool() as running:
        yield running

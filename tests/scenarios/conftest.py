"""What tests of scenarios share: processes that run plans take half a second to load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scenarios.running.fleet import Fleet


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """For runs of which none has to go wrong in a way of its own."""
    with Fleet() as running:
        yield running

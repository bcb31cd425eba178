"""What every test may use."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from headless import Browser

sys.path.insert(0, str(Path(__file__).parent))

# An example may take as long as it takes: how busy the machine is says nothing about the code.
hypothesis.settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any_machine")

# A shell lets what it runs in the background ignore Ctrl-C, and so would every program that is
# started, and interrupted, by a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of pages; they are skipped where it cannot be had."""
    from headless import Browser  # noqa: PLC0415  # most tests have no page
    from sdk.parts import PartMissing  # noqa: PLC0415

    try:
        browser = Browser()
    except PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))
    yield browser
    browser.stop()

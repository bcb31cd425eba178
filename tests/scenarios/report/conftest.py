"""One browser for all tests of the page; they are skipped where it cannot be had."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from headless import Browser
from sdk.parts import PartMissing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        browser = Browser()
    except PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))
    yield browser
    browser.stop()

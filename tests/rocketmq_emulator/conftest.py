"""The thread of the clients ends with each module: other tests want to be alone with trio."""

from __future__ import annotations

import pytest

from rocketmq_emulator.portal import portal


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left():
    yield
    portal.end()

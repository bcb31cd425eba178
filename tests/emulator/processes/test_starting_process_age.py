"""``ready_s`` counts from the start of the process, whatever it loads first."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketmq_emulator.processes import starting
from rocketmq_emulator.processes.starting import process_age_s

SLOW_TO_LOAD = """
import time
time.sleep(0.3)
from rocketmq_emulator.processes.starting import process_age_s
print(process_age_s())
"""
REPLACED = f"""
import os, sys, time
time.sleep(0.3)
os.execv(sys.executable, [sys.executable, "-c", {SLOW_TO_LOAD!r}])
"""


@pytest.mark.parametrize(("code", "least_s"), [(SLOW_TO_LOAD, 0.29), (REPLACED, 0.59)])
def test_what_a_process_did_before_it_asked_counts(code: str, least_s: float) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert float(done.stdout) >= least_s


def test_where_nothing_says_when_it_began_the_age_is_that_of_the_code(monkeypatch) -> None:
    monkeypatch.setattr(starting, "_START_FIELD", 10_000)
    assert 0 <= process_age_s() < 3_600

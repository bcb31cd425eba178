"""Judging a journal from a generator: memory does not grow with the journal's length.

Two values are compared after a short journal and after one that is ten times as long: the objects
that the judge keeps (``sys.getallocatedblocks``), and the largest memory of the process (VmHWM:
Linux counts it for each program anew).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SHORT, LONG = 40_000, 400_000
# One object kept for each message would be 0.11 a fact.  State that stays open where one minute is
# joined to the next is about 0.013 a fact; a queue drops its records 256 messages at a time.
OBJECTS_A_FACT_MAX = 0.05
GROWTH_BYTES_MAX = 4 << 20  # includes arrays and tables; less than 12 bytes a fact
PROGRAM = """
import gc, json, re, sys
from pathlib import Path
from msgspec.structs import replace
from benchmarks.judging import a_minute, many
from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.facts import SendAttempted

def with_a_bug_at_the_end(count):
    for number, entry in enumerate(many(minute, count)):
        is_late = number > count - 100 and isinstance(entry.fact, SendAttempted)
        yield replace(entry, fact=replace(entry.fact, attempt=7)) if is_late else entry

def memory_bytes():
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", text)[1])

minute = a_minute()
for count in map(int, sys.argv[1:]):
    gc.collect()
    before = sys.getallocatedblocks()
    judging = Judging()
    judging.take(with_a_bug_at_the_end(count))
    gc.collect()
    kept = sys.getallocatedblocks() - before
    found = judging.end()
    print(json.dumps({
        "objects": kept,
        "facts": found.fact_count,
        "bytes": memory_bytes(),
        "incomplete": found.incomplete,
        "checkers": sorted({each.checker for each in found.violations}),
        "raised": found.raised,
    }))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_ten_times_as_many_facts_take_no_more_memory_and_what_is_last_is_judged() -> None:
    command = [sys.executable, "-c", PROGRAM, str(SHORT), str(LONG)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    short, long = (json.loads(line) for line in done.stdout.splitlines())
    assert (short["facts"], long["facts"]) == (SHORT, LONG)
    for found in (short, long):
        assert (found["incomplete"], found["raised"]) == ([], {})
        # Other checkers may object where one minute is joined to the next: it cuts work in flight.
        assert "attempts_are_bounded" in found["checkers"]
    assert long["objects"] - short["objects"] < OBJECTS_A_FACT_MAX * (LONG - SHORT)
    assert long["bytes"] - short["bytes"] < GROWTH_BYTES_MAX

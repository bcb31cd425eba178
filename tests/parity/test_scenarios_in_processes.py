"""Scenarios of the library with real processes in real time get the recorded verdicts.

Four run at once, because they wait most of the time.  ``RECORD=1`` overwrites the records.
"""

from __future__ import annotations

import os

import pytest

from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.result import RunOrder
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from tests.support.real_time_runs import CASES, keep, named, record_of, recorded

JOBS = 4


@pytest.fixture(scope="module")
def rows(request, tmp_path_factory):
    """The rows of the selected cases, by the names of the cases."""
    folder = tmp_path_factory.mktemp("journals")
    wanted = " ".join(item.name for item in request.session.items)
    orders = {
        named(case): RunOrder(
            plan=load(*case), seed=1, world="processes", journal=str(folder / named(case))
        )
        for case in CASES
        if f"[{named(case)}]" in wanted
    }
    names = {id(order): name for name, order in orders.items()}
    with RunPool() as run_pool:
        return {names[id(order)]: row for order, row in run_pool.finished(orders.values(), JOBS)}


@pytest.mark.parity
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_scenario_comes_to_what_was_recorded_of_it(rows, case) -> None:
    row = rows[named(case)]
    assert row.verdict != "error", row.reason
    now = record_of(*case, row)
    if os.environ.get("RECORD") == "1":
        keep(now)
    (before,) = [record for record in recorded() if record.case == case]
    assert (now.verdict, now.unmet) == (before.verdict, before.unmet), (row.reason, row.journal)

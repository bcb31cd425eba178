"""Scenarios that were run with real processes, and their results: one record a line.

``tests/parity/test_scenarios_in_processes.py`` runs them again (``RECORD=1 make parity`` writes
new records), ``tests/scenarios/library/test_library.py`` compares virtual time with them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.result import RunResult, Verdict
from rocketmq_emulator.scenarios.sweeps.sweep import metric_name
from tests.support.paths import GOLDEN

FILE = GOLDEN / "scenarios-in-processes.jsonl"
Parameters = Mapping[str, bool | int | float | str]

CASES: list[tuple[str, Parameters]] = [  # each takes one to three minutes of real time
    ("broker_dies", {}),
    ("three_containers_have_one_client_id", {}),
    ("three_containers_have_one_client_id", {"distinct": True}),
    ("members_subscribe_different_tags", {}),
    ("members_subscribe_different_tags", {"consistent": True}),
    ("more_members_than_queues", {}),
    ("ten_topics_tilt", {}),
    ("a_broker_hangs", {}),
    ("orderly_queues_are_taken_over", {}),
    ("a_topic_gets_more_queues", {}),
]


class RealTimeRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run; *metrics* are those with an expectation."""

    scenario: str
    parameters: Parameters
    world: str
    verdict: Verdict
    unmet: tuple[str, ...]
    metrics: dict[str, float]
    run_s: float

    @property
    def case(self) -> tuple[str, Parameters]:
        """The run's entry in ``CASES``."""
        return self.scenario, self.parameters


def record_of(scenario: str, parameters: Parameters, row: RunResult) -> RealTimeRun:
    """The fields of *row* that are recorded."""
    names = [metric_name(one) for one in load(scenario, parameters).expect]
    return RealTimeRun(
        scenario=scenario,
        parameters=parameters,
        world=row.world,
        verdict=row.verdict,
        unmet=tuple(one.expected for one in row.unmet),
        metrics={name: round(row.metrics[name], 3) for name in names},
        run_s=round(row.run_s, 1),
    )


def recorded() -> list[RealTimeRun]:
    """All records, in the order of ``CASES``."""
    if not FILE.exists():
        return []
    lines = FILE.read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=RealTimeRun) for line in lines]
    return sorted(found, key=lambda record: CASES.index(record.case))


def keep(record: RealTimeRun) -> None:
    """Write *record* in place of the former record of its case."""
    kept = [other for other in recorded() if other.case != record.case]
    every = sorted([*kept, record], key=lambda record: CASES.index(record.case))
    FILE.write_bytes(msgspec.json.Encoder(order="sorted").encode_lines(every))


def named(case: tuple[str, Parameters]) -> str:
    """One word for a case."""
    return "-".join([case[0], *map(str, case[1].values())])

"""The speed of a cluster with load in virtual time: three brokers, five consumers, 60 s.

    python -m benchmarks.virtual_load RATE…   # messages per second

Prints virtual seconds per CPU second.  A short run first imports the modules.  The time of
judging is not included.
"""

from __future__ import annotations

import json
import sys
import time

from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.virtual_run import VirtualRun

VIRTUAL_S = 60


def main(rates: list[float]) -> dict[str, float]:
    plans = {rate: a_plan(rate) for rate in rates}
    VirtualRun(a_plan(10), seed=1).run()
    return {f"{rate:g}": virtual_per_cpu_s(plan) for rate, plan in plans.items()}


def a_plan(rate: float, brokers: int = 3, slaves: int = 0) -> Plan:
    load = (LoadPlan(topic="orders", rate=rate),) if rate else ()
    return Plan(
        name="a minute",
        cluster=ClusterPlan(brokers=brokers, slaves=slaves),
        topics={"orders": TopicPlan()},
        consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}, members=5),),
        load=load,
        timeline=(Step(does=Mark(text="the end"), at_ms=VIRTUAL_S * 1_000),),
        lasts_ms=VIRTUAL_S * 1_000,
    )


def virtual_per_cpu_s(plan: Plan) -> float:
    run = VirtualRun(plan, seed=1)
    began_s = time.process_time()
    run.run()
    took_s = time.process_time() - began_s
    if run.ended.reason != "finished":
        raise RuntimeError(f"the run ended by {run.ended.reason}: {run.ended.detail}")
    return VIRTUAL_S / took_s


if __name__ == "__main__":
    print(json.dumps(main([float(rate) for rate in sys.argv[1:]])))

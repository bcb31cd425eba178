"""Prints a hash of the journal of each scenario of the library, to compare two processes.

    python tests/support/scenarios/bytes_of_runs.py [RATE_MAX] [backwards]

It runs every scenario with its defaults on the releases that can run it, and with the parameters
of every case on the case's release, from one seed, all in this process.  RATE_MAX limits the
messages a second of each load (tests use a small one, for short runs); without it each load keeps
its rate.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from rocketmq_emulator.facts.journal import encode_entry
from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.running.virtual_run import VirtualRun
from tests.scenarios.library.test_library import CASES

RELEASES = ("4.9.7", "5.3.3")
SEED = 11


def plans(rate_max: float) -> list[Plan]:
    """All plans without repetition, sorted by name."""
    defaults = [load(found.name) for found in in_folder(LIBRARY)]
    given = [(plan, release) for plan in defaults for release in releases_of(plan)]
    for name, parameters, *_ in CASES:
        plan = load(name.rpartition(":")[2], parameters)
        given.append((plan, plan.cluster.release))
    smaller = [_of(plan, release, rate_max) for plan, release in given]
    found = {msgspec.json.encode(plan): plan for plan in smaller}
    return sorted(found.values(), key=lambda plan: plan.name)


def releases_of(plan: Plan) -> tuple[str, ...]:
    """The releases on which *plan* runs: what 4.x lacks keeps it on its own."""
    is_of_5x = plan.cluster.controllers or plan.cluster.acting_master
    return (plan.cluster.release,) if is_of_5x else RELEASES


def _of(plan: Plan, release: str, rate_max: float) -> Plan:
    return replace(
        plan,
        cluster=replace(plan.cluster, release=release),
        load=tuple(replace(load, rate=min(load.rate, rate_max)) for load in plan.load),
        parameters={},
    )


def lines(chosen: list[Plan], *, is_backwards: bool) -> Iterator[str]:
    """Lines of: scenario, release, reason of the end, number of facts, hash of their bytes."""
    numbered = list(enumerate(chosen))
    for number, plan in reversed(numbered) if is_backwards else numbered:
        run = VirtualRun(plan, SEED)
        run.run()
        found = hashlib.blake2b(b"".join(map(encode_entry, run.entries)), digest_size=16)
        ended = f"{run.ended.reason} {run.ended.detail}".strip()
        what = f"{number} {plan.name} {plan.cluster.release}"
        yield f"{what}: {ended}, {len(run.entries)} facts, {found.hexdigest()}"


if __name__ == "__main__":
    numbers = [float(word) for word in sys.argv[1:] if word != "backwards"]
    every = plans(*numbers or [float("inf")])
    for line in lines(every, is_backwards="backwards" in sys.argv):
        sys.stdout.write(f"{line}\n")

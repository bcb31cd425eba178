"""What each mode of replication costs and loses when a master dies: one scenario for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

from rocketmq_emulator.scenarios import ListenerPlan, Run, metric, nothing_lost, scenario
from rocketmq_emulator.scenarios.library.penalties import named_choice

ARCHIVE_S = 5  # how long before the fault the group with a backlog begins
FASTER = 1.25  # than the load: it catches up minutes after the fault
ONE_BY_ONE = {
    "consume_from": "CONSUME_FROM_FIRST_OFFSET",
    "consume_threads_max": 1,
    "queue_messages_max": 4,
    "pull_batch_max": 1,
}
DIES_S = 75  # a 5.x slave copies the tables every 60 s: it has the groups' offsets once
ELECTED_S = 45  # until producers know of an elected master: 15 s, and a route poll
BACK_S = 70  # after the fault: a route poll, and a rebalance pass


class Replication(NamedTuple):
    """Settings of a cluster, for masters and slaves of one name."""

    broker_settings: Mapping[str, Any] = {}
    cluster: Mapping[str, Any] = {}  # other fields of the plan's cluster


SYNC = {"broker_role": "SYNC_MASTER"}
ELECTED: Mapping[str, Any] = {"controllers": 1}
UNCLEAN = {"controller_settings": {"elect_unclean_master": True}}
MODES: Mapping[str, Replication] = {
    "async": Replication(),
    "sync": Replication({**SYNC, "in_sync_replicas": 2}),
    "acting": Replication(cluster={"acting_master": True}),
    "controller": Replication(cluster=ELECTED),
    "controller_acks": Replication({"all_ack_in_sync_state_set": True}, ELECTED),
    "controller_unclean": Replication(cluster={**ELECTED, **UNCLEAN}),
    "sync_flush": Replication({**SYNC, "in_sync_replicas": 2, "flush_disk_type": "SYNC_FLUSH"}),
}


@scenario
async def a_master_dies(
    run: Run,
    mode: str = "async",
    release: str = "5.3.3",
    slaves: int = 1,
    fault: str = "kill",
    dies_s: float = DIES_S,
    behind_s: float = 0,
    away_s: float = 60,
    rate: float = 20,
) -> None:
    """The master of the only broker name dies (fault) under load, and is back after a minute.

    The mode (mode) decides who may write meanwhile, what is read, and what is lost.  The fault is
    kill, hang (its connections stay open), power_off (what it has not flushed is lost), cut_off
    (no byte reaches it or leaves it), or link: nothing dies, and its slaves are cut off.  The
    slaves have copied nothing for behind_s before that.  The group billing keeps up with the load;
    archive has begun late, so that it has something to read while nothing is written.
    """
    chosen = named_choice(mode, MODES, "mode")
    await run.cluster(
        brokers=1,
        slaves=slaves,
        topics={"orders": 1},
        release=release,
        broker_settings={"store": "drive", **chosen.broker_settings},
        **chosen.cluster,
    )
    faults: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "kill": lambda: run.kill("broker-a"),
        "hang": lambda: run.pause("broker-a"),
        "power_off": lambda: run.power_off("broker-a"),
        "cut_off": lambda: run.partition(around="broker-a"),
        "link": lambda: run.partition(between=("broker-a", "slaves")),
    }
    dies = named_choice(fault, faults, "fault")
    await run.consumers("billing", topic="orders", members=2)
    with run.load("orders", rate=rate):
        await run.sleep(dies_s - ARCHIVE_S)
        await run.consumers(
            "archive",
            topic="orders",
            listener=ListenerPlan(takes_ms=1_000 / rate / FASTER),
            settings=ONE_BY_ONE,
        )
        await run.sleep(ARCHIVE_S)
        with ExitStack() as behind:
            if behind_s:
                behind.enter_context(run.partition(between=("broker-a", "slaves")))
                await run.sleep(behind_s)
            with dies():
                await run.sleep(away_s)
        await run.sleep(BACK_S)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("lost_with_masters") == 0, metric("lost_with_power") == 0)
    run.expect(metric("write_pause_s") <= ELECTED_S)

"""The histories: a master dies, or its slave, or a controller, and what clients see of it.

Each is of one topology and one kind of replication.  Its facts need no ids, addresses and times:
who was read, which sends were refused and how, which messages were read in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tests.failover.failover_run import (
    FailoverRun,
    elect,
    kill,
    pause,
    resume,
    start,
)

Facts: TypeAlias = dict[str, Any]
R4, R5 = "4.9.7", "5.3.3"
DELAY_5_S = 2  # the level
M, S = "broker-a", "broker-a-1"

SYNC = {
    R4: {"brokerRole": "SYNC_MASTER"},
    R5: {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"},
}
READABLE = {"slaveReadEnable": "true"}
ACTING = {
    "enableSlaveActingMaster": "true",
    "totalReplicas": "2",
    **READABLE,
}


class History(NamedTuple):
    """What is done, on which cluster, of which releases."""

    tell: Callable[[FailoverRun], Facts]
    settings: Mapping[str, Mapping[str, str]]  # of brokers, by release
    namesrv: Mapping[str, str] = {}
    brokers: int = 1
    controllers: int = 0


def master_killed(run: FailoverRun) -> Facts:
    """Nobody may write; the slave is read, if it may be; the returned master has everything."""
    producer, reader = run.producer(), run.consumer()
    producer.send_one("before")
    reader.wait("before")
    run.wait_count(S, 1)
    run.wait_topic(S)
    run.act(kill(M))
    run.wait_gone(0)
    late = run.consumer("late")
    run.nothing_more()
    facts: Facts = {"send": run.try_send(producer, "refused"), "read": late.found()}
    run.act(start(M))
    back = run.send_until(producer, "back")
    for each in (reader, late):
        each.wait("before", back)
    return {**facts, "reader": len(reader.found()), "late": len(late.found())}


def slave_killed(run: FailoverRun) -> Facts:
    """SYNC_MASTER without its slave stores, and says so."""
    producer, reader = run.producer(), run.consumer()
    run.send_until(producer, "before")
    run.act(kill(S))
    run.wait_gone(1)
    facts = {"without a slave": run.try_send(producer, "alone")}
    reader.wait("alone")
    run.act(start(S))
    reader.wait(run.send_until(producer, "after"))
    return facts


def slave_hangs(run: FailoverRun) -> Facts:
    """SYNC_MASTER with a slave that hangs waits, stores, and says so."""
    producer, reader = run.producer(), run.consumer()
    run.send_until(producer, "before")
    run.act(pause(S))
    facts = {"while it hangs": run.try_send(producer, "alone")}
    reader.wait("alone")
    run.act(resume(S))
    reader.wait(run.send_until(producer, "after"))
    run.meet()
    run.wait_count(S, run.count(M))
    return facts


def longer_log(run: FailoverRun) -> Facts:
    """An ASYNC master dies with a message that its slave does not have, and returns with it."""
    producer, reader = run.producer(), run.consumer()
    producer.send_one("before")
    reader.wait("before")
    run.wait_count(S, 1)
    run.wait_topic(S)
    run.act(pause(S))
    run.wait_link_closed()
    sent = run.try_send(producer, "not copied")
    run.act(kill(M), resume(S))
    run.wait_gone(0)
    late = run.consumer("late")
    late.wait("before")
    facts = {"sent": sent, "slave has": run.count(S), "read": late.found()}
    run.act(start(M))
    for each in (late, reader):
        each.wait("not copied")
    run.wait_count(S, 2)
    return {
        **facts,
        "late": late.found(),
        "reader": reader.found(),
        "slave has then": run.count(S),
    }


def slave_offsets(run: FailoverRun) -> Facts:
    """What is committed at the slave meanwhile is replaced by the returned master's offsets."""
    producer, group = run.producer(), run.unique("still")
    producer.send_one("before")
    run.consumer("still").wait("before")
    run.wait_until(lambda: run.committed(S, group) == 1, "the slave has the offset")
    run.close()
    run.nothing_more()
    run.nothing_more()  # a broker writes its offsets to the disk every 5 s
    run.act(kill(M))
    run.commit(S, group, 0)
    facts = {"at the slave": run.committed(S, group)}
    run.act(start(M))
    run.wait_until(lambda: run.committed(S, group) == 1, "the master's offset is back")
    return {**facts, "at the slave then": run.committed(S, group)}


def too_few_in_sync(run: FailoverRun) -> Facts:
    """Since 5.x, in acting-master mode, a put that too few replicas would have is refused."""
    producer, reader = run.producer(), run.consumer()
    run.send_until(producer, "before")
    run.act(kill(S))
    run.wait_gone(1)
    run.nothing_more()  # the master learns it from the NameServer a second later
    before = run.count(M)
    facts = {"send": run.try_send(producer, "refused"), "stored": run.count(M) - before}
    run.act(start(S))
    reader.wait(run.send_until(producer, "after"))
    return {**facts, "refused was read": "refused" in reader.found()}


def delayed_at_acting_master(run: FailoverRun) -> Facts:
    """A delayed message becomes due while its master is away."""
    producer, reader = run.producer(), run.consumer()
    before = run.send_to_master(producer, "before")
    reader.wait(before)
    run.wait_count(S, run.count(M))
    run.wait_topic(S)
    delayed = run.send_to_master(producer, "delayed", delay_level=DELAY_5_S)
    run.wait_log_copied(M, S)
    run.act(kill(M))
    run.wait_gone(0)
    for _ in range(3):
        run.nothing_more()
    facts: Facts = {"read while away": delayed in reader.found()}
    run.act(start(M))
    reader.wait(delayed)
    run.wait_master(M)
    reader.wait(run.send_until(producer, "after"))
    return {**facts, "times in all": reader.found().count(delayed)}


def elected(run: FailoverRun) -> Facts:
    """The controller elects the slave; nothing is lost; the old master comes back as a slave."""
    producer, reader = run.producer(), run.consumer()
    keys = [run.send_until(producer, f"before-{number}") for number in range(5)]
    run.wait_in_sync(2)
    old = run.master()
    new = run.other(old)
    run.act(kill(old))
    run.wait_master(new)
    after = run.send_until(producer, "after")
    reader.wait(*keys, after)
    run.act(start(old))
    run.wait_in_sync(2)
    reader.wait(run.send_until(producer, "again"))
    run.meet()
    run.wait_count(old, run.count(new))
    return {"master": "new" if run.master() == new else "old", "read": "all"}


def elected_by_hand(run: FailoverRun) -> Facts:
    """An administrator has the other one elected while both live."""
    producer, reader = run.producer(), run.consumer()
    before = run.send_until(producer, "before")
    run.wait_in_sync(2)
    old = run.master()
    new = run.other(old)
    run.wait_copied(old, new)
    run.act(elect(new))
    run.wait_master(new)
    run.wait_in_sync(2)
    reader.wait(before, run.send_until(producer, "after"))
    return {"read": "all", "code of a second time": elect(new)(run.cluster)}


def controller_killed(run: FailoverRun) -> Facts:
    """Without the controller the master goes on; with it again, the slave can be elected."""
    producer, reader = run.producer(), run.consumer()
    before = run.send_until(producer, "before")
    run.wait_in_sync(2)
    old = run.master()
    new = run.other(old)
    run.act(kill("controller"))
    without = run.try_send(producer, "without")
    reader.wait(before, "without")
    run.act(start("controller"))
    run.wait_in_sync(2)
    run.wait_copied(old, new)
    run.act(kill(old))
    run.wait_master(new)
    reader.wait(run.send_until(producer, "after"))
    return {"without a controller": without, "read": "all"}


def longer_log_is_cut(run: FailoverRun) -> Facts:
    """What only the old master had is cut when it returns below the elected one.

    Nobody reads before: who had read that message would miss the one in its place.
    """
    producer = run.producer()
    before = run.send_until(producer, "before")
    run.wait_in_sync(2)
    old = run.master()
    new = run.other(old)
    run.meet()
    run.wait_copied(old, new)
    count = run.count(old)
    run.act(pause(new))
    sent = run.try_send(producer, "not copied")
    run.act(kill(old), resume(new))
    run.wait_master(new)
    # It may have more: bytes that waited in its socket while it hung.  To wait until the master
    # has left it would take it out of the sync-state set, and nobody would be elected.
    missing = max(0, count - run.count(new))
    after = run.send_until(producer, "after")
    run.consumer().wait(before, after)
    run.act(start(old))
    run.wait_in_sync(2)
    run.meet()
    run.wait_count(old, run.count(new))
    return {"sent": sent, "missing of what was copied": missing, "after": "read"}


CONTROLLED = {R5: {"inSyncReplicas": "1"}}
ALL_ACK = {R5: {"allAckInSyncStateSet": "true", "inSyncReplicas": "2", "minInSyncReplicas": "1"}}
ACTING_NAMES = {"supportActingMaster": "true"}

HISTORIES: Mapping[str, History] = {
    "master-killed": History(master_killed, {R4: {}, R5: {}}),
    "slave-read": History(master_killed, {R5: READABLE}),
    "slave-killed": History(slave_killed, SYNC),
    "slave-hangs": History(slave_hangs, SYNC),
    "longer-log": History(longer_log, {R4: {}, R5: READABLE}),
    "slave-offsets": History(slave_offsets, {R4: {}}),
    "too-few-in-sync": History(
        too_few_in_sync, {R5: {**ACTING, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}}
    ),
    "acting-master": History(delayed_at_acting_master, {R5: ACTING}, ACTING_NAMES),
    "acting-master-escape": History(
        delayed_at_acting_master,
        {R5: {**ACTING, "enableRemoteEscape": "true"}},
        ACTING_NAMES,
        brokers=2,
    ),
    "elected": History(elected, ALL_ACK, controllers=1),
    "elected-by-hand": History(elected_by_hand, CONTROLLED, controllers=1),
    "controller-killed": History(controller_killed, CONTROLLED, controllers=1),
    "longer-log-is-cut": History(longer_log_is_cut, CONTROLLED, controllers=1),
}

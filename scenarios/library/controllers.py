"""Masters that controllers elect: how long it takes, what is lost, and what may go wrong.

Slaves copy their master's topics 13 s after their start, so most of these scenarios begin later.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Lag, Partition, Run, metric, scenario
from rocketmq_emulator.scenarios.library.slave_copies import LAG_BYTES_MAX

COPIED_S = 16  # by then a slave has the topics of its master, and is in the sync-state set
NO_RETRY = {"async_retries": 0}
RELEASE = "5.3.3"
ELECTED = {"brokers": 1, "slaves": 1, "controllers": 1, "release": RELEASE}


# Bounds -----------------------------------------------------------------------------------


@scenario
async def a_hung_master_is_replaced(run: Run) -> None:
    """A master hangs just after a heartbeat that the controller's scan still counts as fresh.

    A broker is alive for 10 s after its heartbeat.  The controller looks for silent brokers 2 s
    after its start and every 5 s, and for names without a master 5 s after it and every 5 s: it
    elects the slave 3 s later at most.  Producers learn the new address with their next route
    poll, 30 s later at most.
    """
    await run.cluster(topics={"orders": 1}, **ELECTED)
    await run.sleep(14.9)
    with run.load("orders", rate=20, mode="async", settings=NO_RETRY):
        await run.sleep(17.1)
        with run.pause("broker-a"):
            await run.sleep(60)
    await run.sleep(20)
    run.expect(metric("election_s") <= 13, metric("without_writes_s") <= 43.1)


@scenario
async def a_hung_slave_leaves_the_set(run: Run) -> None:
    """A slave hangs just after a check of the sync-state set, while messages are sent.

    A slave that has not caught up for 15 s (haMaxTimeSlaveNotCatchup) leaves the set with the
    master's next check, 5 s later at most.
    """
    await run.cluster(topics={"orders": 1}, **ELECTED)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20):
        await run.sleep(7.1)
        with run.pause("broker-a-1"):
            await run.sleep(30)
    await run.sleep(20)
    run.expect(metric("silent_in_set_s") <= 20.1)


@scenario(issue="apache/rocketmq#9717")
async def a_hung_master_is_not_noticed(
    run: Run, kind: str = "jRaft", dies: bool = False, release: str = RELEASE
) -> None:
    """A master hangs for a minute, and a controller of JRaft (controllerType) elects nobody.

    It looks for silent brokers every 5 s, but returns before it looks as soon as the first
    heartbeat is more than a second ago: the test is the wrong way round.  It has no scan for names
    without a master either (#10875 is about the one that came later).  So it notices only a
    connection that is closed, as that of a master that dies (dies).  A controller of DLedger, the
    default, elects the slave.  JRaft came with 5.2.0; upstream mended it after 5.3.3 (#9718).
    """
    cluster = {**ELECTED, "release": release}
    controller = {"controller_type": kind}
    await run.cluster(topics={"orders": 1}, controller_settings=controller, **cluster)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async", settings=NO_RETRY):
        await run.sleep(2)
        with run.kill("broker-a") if dies else run.pause("broker-a"):
            await run.sleep(60)
    await run.sleep(20)
    run.expect(metric("write_pause_s") <= 45)


# What is lost -------------------------------------------------------------------------------


@scenario
async def an_election_loses_what_was_not_copied(run: Run, all_ack: bool = False) -> None:
    """A slave lags, its master is killed, and the slave is elected: it lacks messages.

    By default a send is acknowledged when the master has it, and a slave stays in the sync-state
    set while it lags: whatever it lacks is truncated at the old master when that comes back.  With
    allAckInSyncStateSet a send is acknowledged when all of the set have it, and nothing is lost.
    """
    settings = {"all_ack_in_sync_state_set": True} if all_ack else {}
    await run.cluster(topics={"orders": 1}, broker_settings=settings, **ELECTED)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(5)
        with run.fault(Lag(node="broker-a-1", ms=1_000)):
            await run.sleep(5)
            with run.kill("broker-a"):
                await run.sleep(20)
    await run.sleep(40)
    run.expect(metric("lost_with_masters") == 0, metric("elections") >= 2)


@scenario(issue="apache/rocketmq#9689")
async def a_slave_misses_an_epoch(run: Run, restarted: bool = False) -> None:
    """A slave that has all messages is not elected: it does not know its master's last epoch.

    The controller is cut off from all brokers, so all count as dead, and when the links come back
    it elects the same master again, in a new epoch.  Slaves that stay connected copy on, but the
    master still names the old epoch.  One that connects again learns the new one.  That one lags,
    the master is killed, and the controller compares epochs first: it elects the slave with less.
    A slave had the lost messages.  If it is restarted too, it knows the epoch, and is elected
    (restarted).  All releases with controllers do this; upstream mended it after 5.3.3 (#9690).
    """
    await run.cluster(topics={"orders": 1}, **{**ELECTED, "slaves": 2})
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async"):
        with run.partition(around="controller"):
            await run.sleep(16)
        await run.sleep(20)
        for name in ("broker-a-2", *(("broker-a-1",) if restarted else ())):
            with run.kill(name):
                await run.sleep(5)
            await run.sleep(COPIED_S)
        with run.fault(Lag(node="broker-a-2", ms=1_000)):
            await run.sleep(5)
            with run.kill("broker-a"):
                await run.sleep(20)
    await run.sleep(40)
    run.expect(metric("lost_with_masters") <= 1, metric("elections") >= 2)


@scenario
async def a_quick_restart_strands_the_slave(run: Run, noticed: bool = False) -> None:
    """A master loses its power and is back after 5 s: its slave never copies again.

    The controller was told nothing, and heartbeats count for 10 s, so the broker is the master of
    the epoch that it had.  A master that begins to serve notes its epoch as from the end of its
    log, and removes the entry of the same epoch, which its slave has with another start: the two
    logs have no epoch in common.  The slave is out of the sync-state set for good, also after a
    restart, until its store is removed.  When the master dies later nobody may be elected.

    A controller that noticed the end, as that of a killed process (noticed), elects the slave, and
    the old master copies from it.  All releases with controllers do this; no thread was found.
    """
    await run.cluster(topics={"orders": 1}, **ELECTED)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(5)
        with run.kill("broker-a") if noticed else run.power_off("broker-a"):
            await run.sleep(5)
        await run.sleep(60)
        with run.kill("broker-a"):
            await run.sleep(20)
        await run.sleep(40)
    await run.sleep(20)
    run.expect(metric("lag_at_death_bytes") <= LAG_BYTES_MAX, metric("failed_elections") == 0)


@scenario(issue="apache/rocketmq#7017")
async def a_replaced_master_goes_on(run: Run, apart_s: float = 20.0) -> None:
    """A master loses its controller and its slave, and clients still reach it: two masters.

    The controller elects the slave.  The old master has no lease: it acknowledges messages until
    it asks the controller again, and they are truncated then.  If the links come back before its
    heartbeats count as missing, after 10 s, nobody is elected.
    """
    await run.cluster(topics={"orders": 1}, **ELECTED)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(2)
        apart = Partition(between=("broker-a", ("controller", "broker-a-1", "namesrv")))
        with run.fault(apart):
            await run.sleep(apart_s)
        await run.sleep(30)
    await run.sleep(30)
    run.expect(metric("acked_by_replaced") == 0)


@scenario(issue="apache/rocketmq#9864")
async def a_topic_is_lost_with_its_master(run: Run, after_s: float = 8.0) -> None:
    """A slave is elected before it has copied the topics: they are gone.

    It copies them 13 s after its start for the first time.  One that is elected earlier has the
    messages but not the topics; the old master comes back as its slave, and removes its own.
    """
    await run.cluster(
        topics={"orders": 1}, broker_settings={"auto_create_topic": False}, **ELECTED
    )
    await run.sleep(after_s)
    with run.kill("broker-a"):
        await run.sleep(20)
    await run.sleep(40)
    with run.load("orders", rate=10):
        await run.sleep(10)
    run.expect(metric("failed_sends") == 0)


# Who may be elected --------------------------------------------------------------------------


@scenario
async def a_slave_outside_the_set_is_elected(run: Run, unclean: bool = False) -> None:
    """A slave is cut off and leaves the set, then its master is killed for 30 s.

    By default nobody is elected: the name has no master until the old one is back, and nothing is
    lost.  With enableElectUncleanMaster the slave is elected at once, and lacks what came since.
    """
    settings = {"elect_unclean_master": True} if unclean else {}
    await run.cluster(topics={"orders": 1}, controller_settings=settings, **ELECTED)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(2)
        with run.cut(between=("broker-a", "broker-a-1")):
            await run.sleep(5)
            with run.kill("broker-a"):
                await run.sleep(30)
        await run.sleep(40)
    await run.sleep(20)
    run.expect(metric("lost_with_masters") == 0, metric("failed_elections") >= 1)


@scenario
async def the_controller_is_away_when_a_master_dies(run: Run, controllers: int = 1) -> None:
    """A controller is down while a master dies: a single one elects nobody until it is back.

    Of a group of three the other two elect a leader, and that elects the slave.
    """
    cluster = {**ELECTED, "controllers": controllers}
    first = "controller" if controllers == 1 else "controller-a"
    await run.cluster(topics={"orders": 1}, **cluster)
    await run.sleep(COPIED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(2)
        with run.kill(first):
            await run.sleep(12)
            with run.kill("broker-a"):
                await run.sleep(40)
        await run.sleep(40)
    await run.sleep(20)
    run.expect(metric("without_writes_s") <= 32)

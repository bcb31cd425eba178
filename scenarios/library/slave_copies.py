"""What a slave's copy of the log lacks: its beginning, its end, or all of it."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Lag, Run, metric, nothing_lost, scenario
from rocketmq_emulator.scenarios.library.slaves import REPORTED_S, SLOW_FLUSHES

SMALL_FILES = {"segment_bytes": 256 * 1024, "message_bytes_max": 16 * 1024}  # of a log
KEPT_FILES = {**SMALL_FILES, "retained_bytes_max": 0}
LAG_BYTES_MAX = 20_000  # of a slave that copies: what these loads store in 0.1 s
ONE_BY_ONE = {"pull_batch_max": 1, "queue_messages_max": 1, "consume_threads_max": 1}
EIGHT_S = {"store": "drive", "flush_interval_ms": 8_000, "flush_thorough_interval_ms": 60_000}


@scenario(issue="apache/rocketmq#3388")
async def a_slave_comes_back_too_late(
    run: Run, release: str = "4.9.7", retained: bool = False
) -> None:
    """A slave is down until its master has deleted the file that comes next.

    The slave asks for a byte that the master's log no longer has.  The master finds nothing there
    and sends heartbeats only, so the connection stays open, nothing is copied, and no error is
    logged: all releases do this.  In the report a SYNC_MASTER answered SLAVE_NOT_AVAILABLE.  If
    files are kept for longer than a slave can be down (retained; fileReservedTime), it goes on
    where it was.
    """
    settings = KEPT_FILES if retained else {**SMALL_FILES, "retained_bytes_max": 1024 * 1024}
    await run.cluster(
        brokers=1, slaves=1, topics={"orders": 1}, release=release, broker_settings=settings
    )
    await run.sleep(REPORTED_S)
    with run.load("orders", rate=50, size_bytes=4_000):
        await run.sleep(5)
        with run.kill("broker-a-1"):
            await run.sleep(20)
        await run.sleep(30)
        run.kill("broker-a", for_ms=1_000)
        await run.sleep(5)
    run.expect(metric("lag_at_death_bytes") <= LAG_BYTES_MAX)


@scenario(issue="apache/rocketmq#3661")
async def a_new_slave_has_the_last_file_only(
    run: Run, release: str = "4.9.7", late: bool = True
) -> None:
    """A slave with an empty log joins a master with several files, and the master is killed.

    The master sends such a slave its last file, and never those before: all releases do this,
    without a controller.  The group goes on at the slave, which lacks its next messages.  With
    offsetCheckInSlave the slave sends it to its own first message: what is between is lost for
    the group, also when the master is back.  Without that setting, as by default, the members
    pull in vain, without a pause, until the master is back.  A slave that has been there from
    the beginning (late=False) has all files.
    """
    settings = {**KEPT_FILES, "slave_read": True, "offset_check_in_slave": True}
    await run.cluster(
        brokers=1, slaves=1, topics={"orders": 1}, release=release, broker_settings=settings
    )
    down = run.kill("broker-a-1") if late else None
    await run.sleep(REPORTED_S)
    await run.consumers("billing", topic="orders", settings=ONE_BY_ONE, listener={"takes_ms": 200})
    with run.load("orders", rate=20, size_bytes=4_000):
        await run.sleep(20)
    if down is not None:
        down.heal()
    await run.sleep(20)
    with run.kill("broker-a"):
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("read_from_slaves") >= 1)


@scenario(issue="apache/rocketmq#6153")
async def a_slave_is_given_the_address_of_its_master(
    run: Run, release: str = "5.3.3", given: bool = True
) -> None:
    """The file of a slave has the HA address of its master (haMasterAddress), which waits for it.

    Since 5.0.0 the broker sets this address before it makes the client that would use it, and
    then ignores the one of the NameServer: the slave never connects, and copies nothing.  Here
    each send times out, as the master waits for a copy; an ASYNC_MASTER would acknowledge all, and
    nobody would notice.  A comment in the thread found the cause.  4.x copies from that address,
    and without the setting (given=False) a slave of 5.x copies, too.
    """
    own = {"broker-a-1": {"ha_master_address": "broker-a:10912"}} if given else {}
    await run.cluster(
        brokers=1,
        slaves=1,
        topics={"orders": 1},
        release=release,
        broker_settings={"broker_role": "SYNC_MASTER", "in_sync_replicas": 2},
        settings_of=own,
    )
    await run.sleep(REPORTED_S)
    with run.load("orders", rate=2):
        await run.sleep(60)
    run.expect(metric("failed_sends") == 0)


@scenario
async def a_sync_master_waits_for_nobody(
    run: Run, release: str = "5.3.3", replicas: int = 1
) -> None:
    """A SYNC_MASTER of 5.x has the default of inSyncReplicas, and loses its power.

    Up to 4.9 such a master acknowledges a message when a slave has it.  Since 5.0.0 it waits for
    inSyncReplicas, itself included, which is 1: it acknowledges at once, as an ASYNC_MASTER does,
    so that a cluster that was upgraded with its files loses what its slave has not copied yet.
    With 2 replicas it waits again.
    """
    role = {"broker_role": "SYNC_MASTER", "in_sync_replicas": replicas}
    await run.cluster(
        brokers=1,
        slaves=1,
        topics={"orders": 1},
        release=release,
        broker_settings={**SLOW_FLUSHES, **role},
    )
    await run.sleep(REPORTED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(5)
        with run.fault(Lag(node="broker-a-1", ms=2_000)):
            await run.sleep(5)
            with run.power_off("broker-a"):
                await run.sleep(10)
    await run.sleep(20)
    run.expect(metric("lost_with_masters") == 0)


@scenario(issue="apache/rocketmq#3015")
async def an_old_report_counts_as_a_copy(run: Run, release: str = "4.9.7") -> None:
    """A SYNC_MASTER lost the end of its log, and has another slave now, which lags.

    The first slave has more than its master then: it reports that, and is gone.  Up to 4.9 the
    master keeps the highest report of any slave, and acknowledges whatever ends before it, as
    long as some slave is connected: when the power fails again, messages that were acknowledged
    with SEND_OK are lost, and no slave has them.  Since 5.0.0 the reports of open connections
    count (here inSyncReplicas is 2), so each send waits for the slave that lags.
    """
    role = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
    await run.cluster(
        brokers=1,
        slaves=2,
        topics={"orders": 1},
        release=release,
        broker_settings={**EIGHT_S, **role},
    )
    other = run.kill("broker-a-2")
    await run.sleep(REPORTED_S)
    with run.load("orders", rate=200, mode="async"):
        await run.sleep(10)
        with run.power_off("broker-a"):
            await run.sleep(2)
    await run.sleep(REPORTED_S)  # the first slave connects again and reports
    run.kill("broker-a-1")
    other.heal()
    run.fault(Lag(node="broker-a-2", ms=2_000))
    await run.sleep(REPORTED_S)
    with run.load("orders", rate=20, mode="async"):
        await run.sleep(10)
        with run.power_off("broker-a"):
            await run.sleep(5)
    await run.sleep(20)
    run.expect(metric("lost_with_masters") == 0, metric("excused_other_logs") == 0)

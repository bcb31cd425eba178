"""Slaves that act as masters: messages sent to other brokers, lost, or sent twice.

A master is away, and its slave acts.  Delayed messages, timers and half messages that are due it
sends to another broker, if enableRemoteEscape is on and one can be reached.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario

FROM_THE_FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
COPIED_S = 65  # a slave copies topics and progress 60 s after its start, and every 60 s then


@scenario(issue="apache/rocketmq#5012")
async def open_transactions_are_skipped(
    run: Run, release: str = "5.3.3", escape: bool = False
) -> None:
    """A master is killed while transactions are open, and its slave sends the half messages away.

    An acting master accepts no end of a transaction and asks no producer: it sends
    every open half message to another broker, which asks.  Without enableRemoteEscape each send
    fails; after eleven it skips the message, and the master that is back takes that progress.  So
    nobody asks for the outcome any more.
    """
    await run.cluster(
        brokers=2,
        slaves=1,
        acting_master=True,
        release=release,
        topics={"orders": 1},
        broker_settings={"remote_escape": escape},
    )
    await run.sleep(COPIED_S)
    with run.load("orders", rate=2, mode="transaction", crashes=1.0, count_max=10):
        await run.sleep(6)
    with run.kill("broker-a"):
        await run.sleep(60)
    await run.sleep(90)
    run.expect(metric("halves_skipped") == 0, metric("open_transactions") == 0)


@scenario(issue="apache/rocketmq#7927")
async def timers_are_given_up(run: Run, release: str = "5.3.3", another: bool = False) -> None:
    """Timer messages are due while a master is away, and no other master can take them.

    The only other master is killed for 30 s of this time.  A send to it fails, and after three
    tries the slave drops the message, although its master will be back.
    With another master that is alive nothing is lost.
    """
    await run.cluster(
        brokers=2, slaves=1, acting_master=True, release=release, topics={"orders": 1}
    )
    await run.consumers("billing", topic="orders")
    await run.sleep(COPIED_S)
    with run.load("orders", rate=2, timer_ms=(15_000,)):
        await run.sleep(10)
    with run.kill("broker-a"):
        if another:
            await run.sleep(40)
        else:
            with run.kill("broker-b"):
                await run.sleep(30)
            await run.sleep(10)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("timers_given_up") == 0)


@scenario(issue="apache/rocketmq#7601")
async def messages_come_twice_through_the_bridge(
    run: Run, release: str = "5.3.3", just_copied: bool = False
) -> None:
    """A slave that begins to act has the delay progress of its last copy, up to 60 s old.

    What its master has delivered since then it sends once more, to another broker: consumers get
    these messages twice, with the same key in two queues.  Just after a copy there are few.
    """
    await run.cluster(
        brokers=2, slaves=1, acting_master=True, release=release, topics={"orders": 1}
    )
    await run.consumers("billing", topic="orders")
    await run.sleep(COPIED_S)
    with run.load("orders", rate=2, delay_levels=(1,)):
        await run.sleep(4 if just_copied else 50)
    with run.kill("broker-a"):
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("escaped_again") <= 10)


@scenario
async def an_acting_master_has_no_topics_yet(
    run: Run, release: str = "5.3.3", settled: bool = False
) -> None:
    """A master is killed within a minute of its slave's start, and a group gets nothing there.

    The slave copies the topics 60 s after its start.  Until then it refuses pulls: the topic does
    not exist.  Routes name it as the master all the same, so consumers wait for that copy, which
    does not come while the master is away.
    """
    await run.cluster(
        brokers=2, slaves=1, acting_master=True, release=release, topics={"orders": 1}
    )
    await run.sleep(COPIED_S if settled else 10)
    with run.load("orders", rate=10):
        await run.sleep(5)
    with run.kill("broker-a"):
        await run.sleep(5)
        await run.consumers("billing", topic="orders", settings=FROM_THE_FIRST)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("read_from_slaves") >= 1)


@scenario
async def an_acting_master_is_not_read(
    run: Run, release: str = "5.3.3", readable: bool = False
) -> None:
    """A master is killed, its slave acts, and a group gets nothing there: slaveReadEnable is off.

    Routes name the slave as the master, because the NameServer has supportActingMaster; it grants
    locks and takes offsets.  But it answers pulls only with slaveReadEnable.
    """
    await run.cluster(
        brokers=2,
        slaves=1,
        acting_master=True,
        release=release,
        topics={"orders": 1},
        broker_settings={"slave_read": readable},
    )
    await run.sleep(COPIED_S)
    with run.load("orders", rate=10):
        await run.sleep(5)
    with run.kill("broker-a"):
        await run.sleep(5)
        await run.consumers("billing", topic="orders", settings=FROM_THE_FIRST)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("read_from_slaves") >= 1)


@scenario
async def a_master_takes_old_offsets_back(
    run: Run, release: str = "5.3.3", acting: bool = True
) -> None:
    """A master is restarted, and a group gets the messages of up to a minute again.

    Its slave copies the offsets every 60 s.  A master with enableSlaveActingMaster takes those of
    its slave when it comes back, unless its own data version is higher; that counts every 500th
    commit only, so the older offsets of the slave replace those of its own file.  A member that
    starts then begins there.  Without acting slaves a master keeps its own.  A member that stays
    commits what it knows, so it repairs the offsets of its queues.  Found here, by a test of
    pre-online; no thread is known.
    """
    await run.cluster(
        brokers=1,
        slaves=1,
        acting_master=acting,
        release=release,
        topics={"orders": 1},
    )
    billing = await run.consumers("billing", topic="orders")
    await run.sleep(COPIED_S)
    with run.load("orders", rate=10):
        await run.sleep(45)
    await run.sleep(6)
    run.leave(billing.members[0])
    with run.stop("broker-a"):
        await run.sleep(5)
    await run.sleep(10)
    billing.grow()
    await run.until_quiet()
    run.expect(nothing_lost(), metric("duplicates") <= 10)

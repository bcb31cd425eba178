"""What a loss of power takes along, with and without SYNC_FLUSH."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario


@scenario
async def a_power_loss_hides_new_messages(run: Run, flush: str = "ASYNC_FLUSH") -> None:
    """A broker loses power, and with it the messages that were not flushed.

    After its restart it gives their offsets again.  Consumers that were beyond go on from where
    they were, so the new messages in those places are stored, acknowledged, and never seen by
    them.  With SYNC_FLUSH nothing acknowledged is gone, and no place is used twice.
    """
    settings = {"flush_disk_type": flush, "flush_interval_ms": 5_000, "store": "drive"}
    await run.cluster(brokers=1, topics={"orders": 2}, broker_settings=settings)
    await run.consumers("billing", topic="orders")
    with run.load("orders", rate=20):
        await run.sleep(23)
        with run.power_off("broker-a"):
            await run.sleep(5)
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("lost_with_power") == 0, metric("hidden") == 0)


@scenario
async def a_retry_is_lost_with_the_power(
    run: Run, release: str = "4.9.7", flush_ms: int = 800
) -> None:
    """A message fails, and its broker with SYNC_FLUSH loses power before the retry is flushed.

    Who sends a message waits for its flush; a member that sends one back does not, in no release
    (setWaitStoreMsgOK(false)): the broker answers at once, the member commits beyond the message,
    and with a slow disk the retry is gone.  A disk that takes 5 ms keeps it.
    """
    settings = {"flush_disk_type": "SYNC_FLUSH", "store": "drive"}
    await run.cluster(brokers=1, topics={"orders": 1}, release=release, broker_settings=settings)
    await run.consumers("billing", topic="orders", listener={"fails": 1.0, "until_ms": 10_000})
    await run.sleep(5)
    with run.slow_disk("broker-a", flush_ms=flush_ms):
        with run.load("orders", rate=1, count_max=1):
            await run.sleep(1.2)
        with run.power_off("broker-a"):
            await run.sleep(3)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("lost_with_power") == 0)

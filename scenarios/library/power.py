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

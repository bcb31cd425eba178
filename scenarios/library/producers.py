"""What producers do about brokers that are slow, hang or fail."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, failed_sends, nothing_lost, scenario


@scenario(issue="apache/rocketmq#8990")
async def a_broker_hangs(run: Run, release: str = "4.9.7", attempt_ms: int = -1) -> None:
    """One of two brokers stands still, with its connections open.

    The time-out of 3 s is the budget of the whole call, and the first attempt may use all of
    it: then there is no retry, and the send fails.  Since 5.3.3 an attempt can have a limit of
    its own (attempt_ms), which leaves time for the other broker.
    """
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    limit = {"send_timeout_ms_per_attempt": attempt_ms} if attempt_ms > 0 else {}
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=20, settings=limit):
        await run.sleep(30)
        with run.pause("broker-b"):
            await run.sleep(20)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), failed_sends() == 0)

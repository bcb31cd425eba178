"""How long producers avoid a broker that was slow: three tables, each with its price."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, failed_sends, metric, scenario


@scenario(issue="apache/rocketmq#7812")
async def a_broker_is_slow_for_forty_seconds(
    run: Run, table: str = "4.x", round_trip_ms: int = 600
) -> None:
    """One of two brokers answers late for 40 s, and the producer avoids slow brokers.

    Tables decide for how long after each slow answer.  With that of 4.9 hardly a send is slow,
    and the broker stays without messages long after it is well; with that of 5.1.4 it is used
    again in 2 s, and more sends are slow meanwhile.  That of articles (seed_prose), which no
    release has, is short up to a second, and long above.
    """
    await run.cluster(brokers=2, topics={"orders": 4})
    avoids = {"send_latency_fault_enable": True, "fault_table": table}
    with run.load("orders", rate=10, settings=avoids):
        await run.sleep(10)
        with run.slow_link(between=("broker-b", "clients"), ms=round_trip_ms / 2):
            await run.sleep(40)
        await run.sleep(40)
    run.expect(failed_sends() == 0)
    run.expect(metric("send_ms_p99") <= 500, metric("avoided_after_s") <= 10)

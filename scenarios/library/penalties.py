"""How long producers avoid a broker that was ill: three tables, each with its price."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from rocketmq_emulator import RequestCode, ResponseCode
from rocketmq_emulator.scenarios import ReplyRule, Run, failed_sends, metric, scenario

T = TypeVar("T")


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


# A name for what producers do: the release, and the producer's settings.
AVOIDS: dict[str, tuple[str, dict[str, object]]] = {
    "never": ("4.9.7", {}),
    "4.9": ("4.9.7", {"send_latency_fault_enable": True}),
    "5.1.4": ("5.1.4", {"send_latency_fault_enable": True}),
    "5.2": ("5.2.0", {"send_latency_fault_enable": True}),
    "prose": ("4.9.7", {"send_latency_fault_enable": True, "fault_table": "seed_prose"}),
}
BUSY = ReplyRule(code=RequestCode.SEND_MESSAGE_V2, error_code=ResponseCode.SYSTEM_BUSY)


@scenario(issue="apache/rocketmq#7812")
async def a_broker_flaps(
    run: Run,
    avoids: str = "4.9",
    fault: str = "slow",
    slow_ms: int = 600,
    ill_s: float = 10,
    well_s: float = 20,
    flaps: int = 4,
) -> None:
    """One of two brokers is ill and well by turns; producers avoid it by the table of a release.

    Ill is slow (a round trip takes slow_ms), cut (its connections break) or busy (it answers
    with errors).  Producers avoid it never, as 4.9, 5.1.4 or 5.2 do, or as articles say (prose).
    With the long table of 4.9 a broker that flaps gets next to nothing while it is well: one
    failure alone counts for 600 s.  With the short ones it gets its share again in seconds, and
    more sends meet it while it is ill.
    """
    release, settings = chosen(avoids, AVOIDS, "avoids")
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    faults: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "slow": lambda: run.slow_link(between=("broker-b", "clients"), ms=slow_ms / 2),
        "cut": lambda: run.cut(between=("broker-b", "clients")),
        "busy": lambda: run.answer("broker-b", BUSY),
    }
    ill = chosen(fault, faults, "fault")
    with run.load("orders", rate=5, settings=settings):
        await run.sleep(10)
        for _ in range(flaps):
            with ill():
                await run.sleep(ill_s)
            await run.sleep(well_s)
    run.expect(failed_sends() == 0, metric("broker_share_well") >= 0.25)


def chosen(name: str, known: Mapping[str, T], what: str) -> T:
    """The one of that name; raises ``ValueError`` with those that there are."""
    if name not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {name!r}")
    return known[name]

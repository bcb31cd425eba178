"""How long producers avoid a broker after it was faulty: three tables, and the cost of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
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

    A table gives the time to avoid the broker after each slow answer.  With the table of 4.9
    hardly any send is slow, and the broker gets no messages long after it has recovered.  With
    that of 5.1.4 it is used again after 2 s, and more sends are slow meanwhile.  The table
    "articles" is in articles but in no release: short up to 1 s of latency, and long above.
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


# Values of *avoids*: the release, and the producer's settings.
AVOIDS: dict[str, tuple[str, dict[str, object]]] = {
    "never": ("4.9.7", {}),
    "4.9": ("4.9.7", {"send_latency_fault_enable": True}),
    "5.1.4": ("5.1.4", {"send_latency_fault_enable": True}),
    "5.2": ("5.2.0", {"send_latency_fault_enable": True}),
    "prose": ("4.9.7", {"send_latency_fault_enable": True, "fault_table": "articles"}),
}
SPELL_S_MIN = 0.1
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
    spells: int = 0,
    brokers: int = 2,
    broker: str = "broker-b",
    queues: int = 4,
    rate: float = 5,
) -> None:
    """One of two brokers is faulty again and again; producers avoid it by a release's table.

    The fault (fault) is slow (a round trip takes slow_ms), cut (its connections break) or busy (it
    answers with errors).  Producers (avoids) never avoid the broker, or as 4.9, 5.1.4 or 5.2 do,
    or as articles describe (prose).  With the long table of 4.9 a broker that flaps is avoided for
    most of the time in which it is healthy: for 30 s after one send of 600 ms, for 600 s after one
    failure.  With 10 s faulty and 20 s healthy each 30 s end within the next fault, so it gets
    hardly any message.  That is a coincidence of these numbers: with 25, 30 and 40 s healthy it
    gets 8, 15 and 24 %.  With the short table it gets its share again in seconds, and more sends
    reach it while it is faulty.  The periods are constant (spells 0), or random with the same
    means (spells is the seed).
    """
    release, settings = named_choice(avoids, AVOIDS, "avoids")
    cluster = await run.cluster(brokers=brokers, topics={"orders": queues}, release=release)
    faulty = named_choice(broker, {name: name for name in cluster.broker_names}, "broker")
    faults: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "slow": lambda: run.slow_link(between=(faulty, "clients"), ms=slow_ms / 2),
        "cut": lambda: run.cut(between=(faulty, "clients")),
        "busy": lambda: run.answer(faulty, BUSY),
    }
    ill = named_choice(fault, faults, "fault")
    with run.load("orders", rate=rate, settings=settings):
        await run.sleep(10)
        for ill_for_s, well_for_s in lengths(spells, ill_s, well_s, flaps):
            with ill():
                await run.sleep(ill_for_s)
            await run.sleep(well_for_s)
    run.expect(failed_sends() == 0, metric("broker_share_well") >= 0.5 / brokers)


def lengths(spells: int, ill_s: float, well_s: float, flaps: int) -> Iterator[tuple[float, float]]:
    """Pairs of seconds for ``a_broker_flaps``: how long the broker is faulty, then healthy.

    Random lengths are exponentially distributed, so that they do not fit a table by coincidence.
    """
    rng = random.Random(f"spells {spells}")
    for _ in range(flaps):
        drawn = (SPELL_S_MIN + rng.expovariate(1 / mean) for mean in (ill_s, well_s))
        yield (ill_s, well_s) if not spells else (round(next(drawn), 3), round(next(drawn), 3))


def named_choice(name: str, known: Mapping[str, T], what: str) -> T:
    """The value of *name* in *known*; raises ``ValueError`` that lists the known names."""
    if name not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {name!r}")
    return known[name]

"""A thread pool decides on arrival when a request ends; a slow model of it agrees."""

from __future__ import annotations

import random
import re

import pytest

from rocketmq_emulator.broker.state.pools import Capacity, Pool, QueuedRequest, size_of
from rocketmq_emulator.protocol.bodies.extensions import POOL_NAMES
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reply-rules.md"
MS = 1_000
BEGAN_US = 7 * MS  # BrokerFastFailure runs at 1007, 1017, 1027 … ms


def a_pool(
    threads: int = 1, service_ms: int = 50, queue_max: int = 100, wait_ms_max: int | None = 200
) -> Pool:
    wait_us_max = None if wait_ms_max is None else wait_ms_max * MS
    return Pool(Capacity(threads, service_ms * MS, queue_max, wait_us_max), BEGAN_US)


def arrive(pool: Pool, at_ms: int) -> QueuedRequest:
    visit = pool.arrive(at_ms * MS)
    assert visit is not None
    return visit


def ends_ms(visits: list[QueuedRequest]) -> list[float]:
    return [visit.ends_us / MS for visit in visits]


def test_requests_are_done_in_order_by_as_many_threads_as_there_are() -> None:
    pool = a_pool(threads=2)
    assert ends_ms([arrive(pool, 2_000) for _ in range(5)]) == [2050, 2050, 2100, 2100, 2150]
    assert ends_ms([arrive(pool, 5_000)]) == [5050]


def test_what_waits_too_long_is_given_up_when_upstream_looks_next() -> None:
    pool = a_pool()
    visits = [arrive(pool, 2_000) for _ in range(8)]
    # The fifth gets its thread at the 200th ms; the sixth would get it at the 250th.
    assert ends_ms(visits) == [2050, 2100, 2150, 2200, 2250, 2207, 2207, 2207]
    assert [visit.shed for visit in visits] == [None] * 5 + ["waited too long"] * 3


def test_nothing_is_given_up_in_the_first_second_of_a_broker() -> None:
    pool = a_pool(service_ms=5_000)
    first, second = arrive(pool, 10), arrive(pool, 10)
    assert (first.shed, second.shed) == (None, "waited too long")
    assert ends_ms([second]) == [1_007]


def test_a_queue_that_is_full_takes_nobody_and_a_free_thread_needs_no_queue() -> None:
    pool = a_pool(queue_max=0, wait_ms_max=None)
    assert ends_ms([arrive(pool, 2_000)]) == [2_050]
    assert pool.arrive(2_049 * MS) is None
    assert ends_ms([arrive(pool, 2_050)]) == [2_100]


def test_the_size_of_the_queue_shrinks_with_each_request_that_is_given_up() -> None:
    pool = a_pool()
    visits = [arrive(pool, 2_000) for _ in range(9)]
    assert pool.waiting_count(2_010 * MS) == 8
    assert pool.head_waited_us(2_010 * MS) == 10 * MS
    sizes = []
    for visit in [visit for visit in visits if visit.shed]:
        assert visit.ends_us == 2_207 * MS
        pool.end(visit)
        sizes.append(pool.waiting_count(2_207 * MS))
    assert sizes == [3, 2, 1, 0]


def test_a_pool_that_takes_no_time_any_more_lets_everybody_go_at_once() -> None:
    pool = a_pool(wait_ms_max=None)
    visits = [arrive(pool, 2_000) for _ in range(5)]
    pool.end(visits[0])
    changed = pool.change(Capacity(1, 0, 100, None), 2_060 * MS)
    assert changed == visits[1:]
    assert ends_ms(changed) == [2_060] * 4


def test_who_has_a_thread_keeps_it_when_the_pool_changes_and_the_others_are_decided_anew() -> None:
    pool = a_pool(threads=2, wait_ms_max=None)
    visits = [arrive(pool, 2_000) for _ in range(4)]
    pool.change(Capacity(1, 10 * MS, 100, None), 2_020 * MS)
    assert ends_ms(visits) == [2_050, 2_050, 2_060, 2_070]
    pool.change(Capacity(4, 100 * MS, 100, None), 2_030 * MS)
    assert ends_ms(visits) == [2_050, 2_050, 2_130, 2_130]


def test_with_fewer_threads_the_next_request_waits_until_so_many_are_at_work() -> None:
    pool = a_pool(threads=2, wait_ms_max=None)
    first, second, third = arrive(pool, 2_000), arrive(pool, 2_020), arrive(pool, 2_025)
    pool.change(Capacity(1, 10 * MS, 100, None), 2_030 * MS)
    assert ends_ms([first, second, third]) == [2_050, 2_070, 2_080]


def test_the_page_shows_upstream_s_pools() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| ([\d,]+) \| ([\d,]+|–) \|", PAGE.read_text(), re.MULTILINE
    )
    shown = {name: tuple(number.replace(",", "") for number in numbers) for name, *numbers in rows}
    config = BrokerConfig(release="5.3.3")
    assert shown == {
        name: (str(size.threads), str(size.queue_max), str(size.wait_ms_max or "–"))
        for name in POOL_NAMES
        for size in (size_of(name, config),)
    }


@pytest.mark.parametrize("seed", range(30))
def test_what_is_decided_at_once_is_what_a_step_by_step_model_does(seed: int) -> None:
    rng = random.Random(seed)
    threads, service_ms = rng.randint(1, 3), rng.randint(1, 90)
    arrivals = sorted(rng.randrange(1_500, 2_500) for _ in range(60))
    pool = a_pool(threads, service_ms, queue_max=10**6)
    decided = [arrive(pool, at_ms) for at_ms in arrivals]
    got = [(visit.ends_us // MS, visit.shed is not None) for visit in decided]
    assert got == step_by_step(arrivals, threads, service_ms)


def step_by_step(arrivals: list[int], threads: int, service_ms: int) -> list[tuple[int, bool]]:
    """Each millisecond: free threads take requests, then BrokerFastFailure ends old ones."""
    results: dict[int, tuple[int, bool]] = {}
    queue: list[int] = []
    busy: list[int] = []
    for now_ms in range(1_500, 9_000):
        queue += [index for index, at_ms in enumerate(arrivals) if at_ms == now_ms]
        busy = [until_ms for until_ms in busy if until_ms > now_ms]
        while queue and len(busy) < threads:
            busy.append(now_ms + service_ms)
            results[queue.pop(0)] = (now_ms + service_ms, False)
        while (now_ms - 7) % 10 == 0 and queue and now_ms - arrivals[queue[0]] >= 200:
            results[queue.pop(0)] = (now_ms, True)
    return [results[index] for index in range(len(arrivals))]

"""A broker with busy pools, request by request: its settings, codes and remarks."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.state.pools import install_busy_pools
from rocketmq_emulator.facts import RequestShed
from rocketmq_emulator.net.dispatch import HookPosition
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.extensions import (
    BusyPool,
    BusyPoolState,
    PoolName,
    decode_extension_body,
    encode_extension_body,
)
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])
START_S = 1.5  # BrokerFastFailure does nothing in the first second
OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
SYNCHRONIZED = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
PAGE_CACHE_BUSY = re.compile(
    r"\[PCBUSY_CLEAN_QUEUE\]broker busy, start flow control for a while, "
    r"period in queue: (\d+)ms, size of queue: (\d+)"
)
TIMED_OUT = re.compile(
    r"\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, "
    r"period in queue: (\d+)ms, size of queue: (\d+)"
)


class BusyBench(Bench):
    """A broker whose pools can be busy, and one client."""

    def __init__(self, nursery: trio.Nursery, **settings: Any) -> None:
        super().__init__(reply_rules_allowed=True, **settings)
        pools = install_busy_pools(self.server, self.broker.config, self.broker.puts)
        self.broker.waiting, self.broker.on_reconfigured = pools.waiting, pools.reconfigure
        self.start(nursery)
        self.one = self.client()

    def busy(self, pool: PoolName, service_ms: float, **how: Any) -> BusyPoolState:
        body = encode_extension_body(BusyPool(pool=pool, service_ms=service_ms, **how))
        answer = self.one.must(catalog.SET_BUSY_POOL, None, body)
        return decode_extension_body(answer.body, BusyPoolState)

    def sends(self, count: int) -> list[int]:
        """Send messages at once; returns the opaques of those that were not answered yet."""
        return [self.one.last_opaque for _ in range(count) if self.one.post("orders") is None]

    def answer(self, opaque: int) -> RemotingCommand:
        answer = self.one.answer_to(opaque)
        assert answer is not None, f"request {opaque} was not answered"
        return answer

    def refused(self) -> list[tuple[int, str]]:
        """Code and remark of each refusal so far."""
        return [(a.code, a.remark or "") for a in self.one.answers() if a.code]

    def set(self, text: str) -> None:
        self.one.must(catalog.UPDATE_BROKER_CONFIG, None, text.encode())


def waits_and_sizes(refused: list[tuple[int, str]]) -> list[tuple[int, int]]:
    found = [TIMED_OUT.fullmatch(remark) for _, remark in refused]
    assert {code for code, _ in refused} <= {ResponseCode.SYSTEM_BUSY}
    return [(int(match[1]), int(match[2])) for match in found if match is not None]


@BOTH
async def test_invariant_32_a_send_that_waits_200_ms_for_a_thread_is_refused(
    release: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """R65, too: the text has the wait and the number of requests that still wait."""
    bench = BusyBench(nursery, release=release)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=1_000, threads=1)
    _, *waiting = bench.sends(3)
    await trio.sleep(0.19)
    assert bench.refused() == []
    await trio.sleep(0.03)
    assert len(bench.refused()) == len(waiting)
    (first_ms, left), (last_ms, none) = waits_and_sizes(bench.refused())
    assert 200 <= first_ms <= last_ms < 215
    assert (left, none) == (1, 0)


@BOTH
async def test_r66_a_send_that_finds_the_queue_full_is_refused_at_once(
    release: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = BusyBench(nursery, release=release, send_threads=1, send_queue_max=2)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=100)
    assert len(bench.sends(4)) == 3
    assert bench.refused() == [(ResponseCode.SYSTEM_BUSY, OVERLOAD)]


@BOTH
async def test_the_settings_are_the_threads_the_queue_and_the_wait_of_a_busy_pool(
    release: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    settings = {"send_threads": 2, "send_queue_max": 3, "send_wait_ms_max": 500}
    bench = BusyBench(nursery, release=release, **settings)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=900)
    waiting = bench.sends(6)
    assert (len(waiting), bench.refused()) == (5, [(ResponseCode.SYSTEM_BUSY, OVERLOAD)])
    await trio.sleep(0.49)
    assert len(bench.refused()) == 1
    await trio.sleep(1)
    assert len(waits_and_sizes(bench.refused()[1:])) == 3
    assert [bench.answer(opaque).code for opaque in waiting[:2]] == [0, 0]


async def test_a_changed_wait_applies_to_requests_that_wait_already(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = BusyBench(nursery, release=LAST_5)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=5_000, threads=1)
    bench.sends(2)
    await trio.sleep(0.1)
    bench.set("waitTimeMillsInSendQueue=700")
    await trio.sleep(0.5)
    assert bench.refused() == []
    await trio.sleep(0.2)
    ((waited_ms, _),) = waits_and_sizes(bench.refused())
    assert 700 <= waited_ms < 715


async def test_without_fast_failure_requests_wait_until_they_are_served(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = BusyBench(nursery, release=LAST_4)
    await trio.sleep(START_S)
    bench.set("brokerFastFailureEnable=false")
    bench.busy("send", service_ms=2_000, threads=1)
    waiting = bench.sends(3)
    await trio.sleep(6.1)
    assert [bench.answer(opaque).code for opaque in waiting] == [0, 0, 0]


@pytest.mark.parametrize(
    ("release", "overload", "timed_out"), [(LAST_4, 0, 0), ("5.2.0", 1, 0), (LAST_5, 1, 1)]
)
async def test_the_pool_of_other_requests_has_a_full_queue_since_5_0_and_a_wait_since_5_3(
    release: str, overload: int, timed_out: int, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    settings = {"admin_threads": 1, "admin_queue_max": 1, "admin_wait_ms_max": 300}
    bench = BusyBench(nursery, release=release, **settings)
    await trio.sleep(START_S)
    bench.busy("admin", service_ms=1_000)
    for _ in range(3):
        bench.one.ask(catalog.GET_ALL_TOPIC_CONFIG)
    remarks = [remark for _, remark in bench.refused()]
    assert remarks == [OVERLOAD] * overload
    await trio.sleep(3.1)
    assert len(waits_and_sizes(bench.refused()[overload:])) == timed_out


@BOTH
async def test_the_figures_have_the_capacities_and_what_waits(
    release: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    settings = {"pull_queue_max": 77, "end_transaction_queue_max": 55, "send_threads": 1}
    bench = BusyBench(nursery, release=release, **settings)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=100)
    bench.sends(3)
    table = decode_body(bench.one.must(catalog.GET_BROKER_RUNTIME_INFO).body, KVTable).table
    assert table["pullThreadPoolQueueCapacity"] == "77"
    assert table["EndTransactionThreadPoolQueueCapacity"] == "55"
    assert table["sendThreadPoolQueueSize"] == "2"


@BOTH
async def test_r67_a_put_that_holds_the_log_for_a_second_empties_the_queue_and_refuses_sends(
    release: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = BusyBench(nursery, release=release)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=3_000, threads=1, holds_log=True)
    (holder,) = bench.sends(1)
    await trio.sleep(0.9)
    assert len(bench.sends(2)) == 2
    await trio.sleep(0.12)  # 1,020 ms
    cleaned = bench.refused()
    found = [PAGE_CACHE_BUSY.fullmatch(remark) for _, remark in cleaned]
    assert [code for code, _ in cleaned] == [ResponseCode.SYSTEM_BUSY] * 2
    assert [match and match[2] for match in found] == ["1", "0"]
    assert all(match and 100 < int(match[1]) < 120 for match in found)
    await trio.sleep(1)
    assert bench.sends(1) == []
    assert bench.refused()[2:] == [(ResponseCode.SYSTEM_BUSY, REJECTED)]
    await trio.sleep(1)
    assert bench.answer(holder).code == 0
    assert [fact.reason for fact in bench.facts(RequestShed)] == ["page cache is busy"] * 3
    assert len(bench.sends(1)) == 1  # the log is free again


async def test_the_next_put_holds_the_log_for_its_own_time(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Two threads, one lock: neither put takes longer than a second, together they do."""
    bench = BusyBench(nursery, release=LAST_5)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=800, threads=2, holds_log=True)
    first, second = bench.sends(2)
    await trio.sleep(0.85)
    assert (bench.answer(first).code, bench.one.answer_to(second)) == (0, None)
    await trio.sleep(0.7)
    (third,) = bench.sends(1)
    await trio.sleep(0.9)
    assert [bench.answer(opaque).code for opaque in (second, third)] == [0, 0]


async def test_the_time_after_which_the_page_cache_is_busy_is_a_setting(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = BusyBench(nursery, release=LAST_4, page_cache_busy_ms=100)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=3_000, threads=1, holds_log=True)
    bench.sends(1)
    await trio.sleep(0.05)
    assert len(bench.sends(1)) == 1
    await trio.sleep(0.1)
    assert bench.sends(1) == []
    bench.set("osPageCacheBusyTimeOutMills=9000")
    assert len(bench.sends(1)) == 1


@pytest.mark.parametrize(
    ("release", "code"),
    [(LAST_4, ResponseCode.SYSTEM_ERROR), ("5.2.0", 1), ("5.3.0", 2), (LAST_5, 2)],
)
async def test_a_put_that_finds_the_log_held_has_another_code_since_5_3(
    release: str, code: int, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Upstream's send gets there if the log becomes busy between its arrival and its put."""
    bench = BusyBench(nursery, release=release)
    await trio.sleep(START_S)
    bench.busy("send", service_ms=3_000, threads=1, holds_log=True)
    bench.sends(1)
    await trio.sleep(1.1)
    bench.server.chain.put(HookPosition.POOLS, None)  # this send has passed the first check
    batch = encode_batch([BatchMessage(b"hello")])
    for answer in (
        bench.one.send_message("orders"),
        bench.one.send_message("orders", batch, batch=True),
    ):
        assert (answer.code, answer.remark) == (code, SYNCHRONIZED)


async def test_only_sends_can_hold_the_log(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    body = b'{"pool": "pull", "service_ms": 5, "holds_log": true}'
    answer = BusyBench(nursery).one.must(catalog.SET_BUSY_POOL, None, body)
    assert "holds_log is for the pool send, not pull" in (answer.remark or "")


def plain(client: Client) -> int:
    return client.send_message("orders").code


async def test_without_a_busy_pool_no_link_is_in_the_chain(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A send costs nothing more because of these settings."""
    bench = BusyBench(nursery, send_threads=1, send_queue_max=1, send_wait_ms_max=0)
    assert bench.server.chain.links == ()
    bench.busy("send", service_ms=10)
    assert len(bench.server.chain.links) == 1
    bench.busy("send", service_ms=0)
    assert bench.server.chain.links == ()
    assert [plain(bench.one) for _ in range(3)] == [0, 0, 0]

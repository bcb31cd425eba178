"""Thread pools: the pool of each request, and the queues of busy pools.

Handlers take no virtual time, so by default no request waits and no pool is in the chain.
SET_BUSY_POOL (our own call) gives a pool a number of threads and a service time: its requests
wait, and are answered SYSTEM_BUSY when its queue is full or they have waited for upstream's limit.
All requests of a pool take the same time and none overtakes another, so the end of each is decided
when it arrives, and again for those that wait when the pool's capacity changes.  Times are
microseconds of the monotonic clock: a wall clock that jumps neither empties nor freezes a queue.
A held pull has left its pool, and does not queue again when it wakes.

Upstream: BrokerController.registerProcessor and its executors, ThreadPoolExecutor and its queue,
BrokerFastFailure, NettyRemotingAbstract.processRequestCommand.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rocketmq_emulator.facts import BusyPoolSet, RequestShed, ShedReason
from rocketmq_emulator.net.dispatch import Defer, HookPosition, Row, table_of
from rocketmq_emulator.net.reply_rules import check_allowed, extension_body_of
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.extensions import (
    QUEUE_MAX,
    BusyPool,
    BusyPoolState,
    PoolName,
    encode_extension_body,
)
from rocketmq_emulator.protocol.codes import EXTENSION_CODES, RequestCode, ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.settings.releases import (
    ADMIN_QUEUE_FAILS_FAST,
    ADMIN_QUEUE_IS_BOUNDED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.net.remoting import Remoting
    from rocketmq_emulator.settings.config import BrokerConfig


FIRST_CHECK_US, CHECK_INTERVAL_US = 1_000_000, 10_000  # BrokerFastFailure.start


class Capacity(NamedTuple):
    """Threads, service time and limits of a pool."""

    threads: int
    service_us: int  # of each request; 0: served at once
    queue_max: int  # requests that wait
    wait_us_max: int | None  # then the request is answered SYSTEM_BUSY; None: no limit


class QueuedRequest(msgspec.Struct, eq=False):
    """One request in a pool: in the queue until ``dequeued_us``, served until ``ends_us``."""

    arrived_us: int
    dequeued_us: int = 0
    ends_us: int = 0
    is_timed_out: bool = False
    is_over: bool = False


class Pool:
    """One pool; BrokerFastFailure, which checks its queue, started at *began_us*."""

    def __init__(self, capacity: Capacity, began_us: int) -> None:
        self.capacity = capacity
        self._checks_from_us = began_us + FIRST_CHECK_US
        self._visits: dict[QueuedRequest, None] = {}  # all requests, in the order of arrival
        self._queue: deque[QueuedRequest] = deque()  # those of them that may still wait
        self._free_us: list[int] = []  # a heap: the time at which each used thread is free again

    def arrive(self, now_us: int) -> QueuedRequest | None:
        """Add a request; None if the queue is full."""
        visit = QueuedRequest(now_us)
        is_free = len(self._free_us) < self.capacity.threads or self._free_us[0] <= now_us
        if not is_free and self.waiting_count(now_us) >= self.capacity.queue_max:
            return None
        self._visits[visit] = None
        self._decide(visit, now_us)
        return visit

    def end(self, visit: QueuedRequest) -> None:
        """Remove a request that was passed on or timed out."""
        visit.is_over = True
        del self._visits[visit]

    def waiting_count(self, now_us: int) -> int:
        """The number of requests that wait; a timed-out one counts until ``end``."""
        self._drop_dequeued(now_us)
        return len(self._queue)

    def head_waited_us(self, now_us: int) -> int:
        """The time that the oldest waiting request has waited; 0 if none waits."""
        self._drop_dequeued(now_us)
        return now_us - self._queue[0].arrived_us if self._queue else 0

    def change(self, capacity: Capacity, now_us: int) -> list[QueuedRequest]:
        """Replace the capacity; returns all requests in the pool, whose ends may have changed.

        A request that has a thread keeps its end, unless requests take no time now.
        """
        self.capacity = capacity
        served = [v for v in self._visits if v.dequeued_us <= now_us and not v.is_timed_out]
        waiting = [v for v in self._visits if v.dequeued_us > now_us]
        if not capacity.service_us:
            for visit in self._visits:
                if not visit.is_timed_out or visit.dequeued_us > now_us:
                    visit.dequeued_us = visit.ends_us = now_us
                    visit.is_timed_out = False
            waiting, served = [], []
        self._free_us = sorted(visit.ends_us for visit in served)[-capacity.threads :]
        self._queue.clear()
        for visit in waiting:
            self._decide(visit, now_us)
        return list(self._visits)

    # Inside ---------------------------------------------------------------------------

    def _decide(self, visit: QueuedRequest, now_us: int) -> None:
        threads, service_us, _, _ = self.capacity
        has_more = len(self._free_us) < threads
        begins_us = now_us if has_more else max(now_us, self._free_us[0])
        given_up_us = self._timeout_us(visit)
        visit.is_timed_out = given_up_us is not None and given_up_us < begins_us
        if visit.is_timed_out:
            assert given_up_us is not None
            visit.dequeued_us = visit.ends_us = max(given_up_us, now_us)
        else:
            visit.dequeued_us, visit.ends_us = begins_us, begins_us + service_us
            replace = heapq.heappush if has_more else heapq.heapreplace
            replace(self._free_us, visit.ends_us)
        if visit.dequeued_us > now_us:
            self._queue.append(visit)

    def _timeout_us(self, visit: QueuedRequest) -> int | None:
        """The first check of BrokerFastFailure after the request has waited too long."""
        if self.capacity.wait_us_max is None:
            return None
        too_long_us = visit.arrived_us + self.capacity.wait_us_max - self._checks_from_us
        return (
            self._checks_from_us + max(0, -(-too_long_us // CHECK_INTERVAL_US)) * CHECK_INTERVAL_US
        )

    def _drop_dequeued(self, now_us: int) -> None:
        queue = self._queue
        while queue and queue[0].dequeued_us <= now_us:
            if queue[0].is_timed_out and not queue[0].is_over:
                return
            queue.popleft()


# The pools of a broker ----------------------------------------------------------------


OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
TIMEOUT = (
    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
    "period in queue: {}ms, size of queue: {}"
)


class Size(NamedTuple):
    """The settings of one pool: its threads, the limit of its queue, the longest wait in it."""

    threads: int
    queue_max: int
    wait_ms_max: int | None  # None: requests wait without a limit


def size_of(name: PoolName, config: BrokerConfig) -> Size:
    """The settings of pool *name* in the release of *config*.

    Upstream: BrokerConfig, …ThreadPoolNums, …QueueCapacity, waitTimeMillsIn…Queue;
    BrokerController.initializeThreadExecutors; BrokerFastFailure, which checks some queues only.
    """
    release = config.parsed_release
    queue_max: int = getattr(config, f"{name}_queue_max")
    wait_ms_max: int | None = getattr(config, f"{name}_wait_ms_max", None)
    if name in _UNBOUNDED_IN_4 and release < ADMIN_QUEUE_IS_BOUNDED:
        queue_max = QUEUE_MAX
    is_checked = name != "admin" or release >= ADMIN_QUEUE_FAILS_FAST
    if not (is_checked and config.fast_failure):
        wait_ms_max = None
    return Size(getattr(config, f"{name}_threads"), queue_max, wait_ms_max)


_UNBOUNDED_IN_4: frozenset[PoolName] = frozenset({"admin", "consumer_manage"})

_POOL_OF: Mapping[int, PoolName] = {  # all other requests: the default processor's pool, admin
    RequestCode.SEND_MESSAGE: "send",
    RequestCode.SEND_MESSAGE_V2: "send",
    RequestCode.SEND_BATCH_MESSAGE: "send",
    RequestCode.CONSUMER_SEND_MSG_BACK: "send",
    RequestCode.RECALL_MESSAGE: "send",
    RequestCode.SEND_REPLY_MESSAGE: "reply",
    RequestCode.SEND_REPLY_MESSAGE_V2: "reply",
    RequestCode.PULL_MESSAGE: "pull",
    RequestCode.LITE_PULL_MESSAGE: "lite_pull",
    RequestCode.QUERY_MESSAGE: "query",
    RequestCode.VIEW_MESSAGE_BY_ID: "query",
    RequestCode.HEART_BEAT: "heartbeat",
    RequestCode.UNREGISTER_CLIENT: "client_manage",
    RequestCode.CHECK_CLIENT_CONFIG: "client_manage",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumer_manage",
    RequestCode.UPDATE_CONSUMER_OFFSET: "consumer_manage",
    RequestCode.QUERY_CONSUMER_OFFSET: "consumer_manage",
    RequestCode.END_TRANSACTION: "end_transaction",
    RequestCode.QUERY_ASSIGNMENT: "load_balance",
    RequestCode.SET_MESSAGE_REQUEST_MODE: "load_balance",
}


def pool_of(code: int) -> PoolName:
    """The pool whose threads serve a request of *code*."""
    return _POOL_OF.get(code, "admin")


class _Busy(msgspec.Struct):
    """A busy pool as it was set, and the numbers of requests it had."""

    wanted: BusyPool
    pool: Pool
    request_count: int = 0
    shed_count: int = 0
    overload_count: int = 0


class BusyPools:
    """The busy pools of one *server*; BrokerFastFailure started at *began_us*."""

    def __init__(self, server: Remoting, config: BrokerConfig, began_us: int) -> None:
        self._server = server
        self._config = config
        self._began_us = began_us
        self._busy: dict[PoolName, _Busy] = {}

    def set_pool(self, call: Call[Header]) -> Result:
        """Change a pool's capacity, or make it not busy: then its requests end at once."""
        check_allowed("busy pools are", allowed=self._config.reply_rules_allowed)
        wanted = extension_body_of(call, BusyPool)
        state = self._state(wanted.pool)
        busy, capacity = self._busy.get(wanted.pool), self._capacity(wanted)
        if busy is None or busy.pool.capacity != capacity:  # else only the state is queried
            self._set(wanted)
            threads, service_us, queue_max, _ = capacity
            address = call.peer.address
            self._server.note(BusyPoolSet(wanted.pool, threads, service_us, queue_max, address))
        return Reply(body=encode_extension_body(state))

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use changed settings, also for requests that wait now."""
        self._config = config
        for busy in tuple(self._busy.values()):
            if busy.pool.capacity != self._capacity(busy.wanted):
                self._set(busy.wanted)

    def reset(self) -> None:
        """Make no pool busy."""
        for name in tuple(self._busy):
            self._set(BusyPool(pool=name))

    def decide(self, call: Call[Any]) -> Result | Defer | None:
        """The hook in the server's chain: a request waits in its pool if that is busy."""
        code = call.command.code
        if code in EXTENSION_CODES or (busy := self._busy.get(pool_of(code))) is None:
            return None
        busy.request_count += 1
        visit = busy.pool.arrive(self._server.clock.mono_us())
        if visit is None:
            busy.overload_count += 1
            self._note_shed(busy, call, waited_ms=0, reason="queue is full")
            return Reply(code=ResponseCode.SYSTEM_BUSY, remark=OVERLOAD)
        return self._until_done(busy, visit, call)

    def waiting(self, name: PoolName) -> tuple[int, int]:
        """The number of requests that wait in a pool, and the ms the oldest has waited."""
        if (busy := self._busy.get(name)) is None:
            return 0, 0
        now_us = self._server.clock.mono_us()
        return busy.pool.waiting_count(now_us), busy.pool.head_waited_us(now_us) // 1000

    # Inside ---------------------------------------------------------------------------

    def _until_done(self, busy: _Busy, visit: QueuedRequest, call: Call[Any]) -> Defer:
        left_ms = -(-(visit.ends_us - self._server.clock.mono_us()) // 1000)
        then = partial(self._done, busy, visit)
        return Defer(call.now_ms + max(left_ms, 0), then, on=visit)

    def _done(self, busy: _Busy, visit: QueuedRequest, call: Call[Any]) -> Result | Defer | None:
        """Pass the request on or shed it; defer again if the capacity changed its end."""
        now_us = self._server.clock.mono_us()
        if visit.ends_us > now_us:
            return self._until_done(busy, visit, call)
        busy.pool.end(visit)
        if not visit.is_timed_out:
            return None
        waited_ms = (now_us - visit.arrived_us) // 1000
        busy.shed_count += 1
        size = busy.pool.waiting_count(now_us)
        self._note_shed(busy, call, waited_ms, reason="waited too long")
        return Reply(code=ResponseCode.SYSTEM_BUSY, remark=TIMEOUT.format(waited_ms, size))

    def _set(self, wanted: BusyPool) -> None:
        capacity = self._capacity(wanted)
        busy = self._busy.pop(wanted.pool, None)
        if capacity.service_us:
            busy = busy or _Busy(wanted, Pool(capacity, self._began_us))
            busy.wanted = wanted
            self._busy[wanted.pool] = busy
        if busy is not None:
            for visit in busy.pool.change(capacity, self._server.clock.mono_us()):
                self._server.ring(visit, None)
        self._server.chain.put(HookPosition.POOLS, self.decide if self._busy else None)

    def _capacity(self, wanted: BusyPool) -> Capacity:
        size = size_of(wanted.pool, self._config)
        wait_ms_max = size.wait_ms_max
        return Capacity(
            threads=wanted.threads or size.threads,
            service_us=round(wanted.service_ms * 1000),
            queue_max=size.queue_max if wanted.queue_max is None else wanted.queue_max,
            wait_us_max=None if wait_ms_max is None else wait_ms_max * 1000,
        )

    def _state(self, name: PoolName) -> BusyPoolState:
        busy = self._busy.get(name)
        return BusyPoolState(
            pool=name,
            request_count=busy.request_count if busy else 0,
            waiting_count=self.waiting(name)[0],
            shed_count=busy.shed_count if busy else 0,
            overload_count=busy.overload_count if busy else 0,
        )

    def _note_shed(self, busy: _Busy, call: Call[Any], waited_ms: int, reason: ShedReason) -> None:
        peer, code = call.peer.address, call.command.code
        self._server.note(RequestShed(peer, code, busy.wanted.pool, waited_ms, reason))


def install_busy_pools(server: Remoting, config: BrokerConfig) -> BusyPools:
    """Add the handler of SET_BUSY_POOL to *server*, and make its requests wait in busy pools."""
    pools = BusyPools(server, config, server.clock.mono_us())
    rows = (Row(catalog.SET_BUSY_POOL, pools.set_pool),)
    server.handlers = {**server.handlers, **table_of(rows, server.release)}
    return pools

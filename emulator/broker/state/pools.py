"""Thread pools: the pool of each request, and the queues of busy pools.

Handlers take no virtual time, so by default no request waits and no pool is in the chain.
SET_BUSY_POOL (our own call) gives a pool a number of threads and a service time: its requests
wait, and are answered SYSTEM_BUSY when its queue is full or they have waited for upstream's limit.
All requests of a pool take the same time and none overtakes another, so the end of each is decided
when it arrives, and again for those that wait when the pool's capacity changes.  Times are
microseconds of the monotonic clock: a wall clock that jumps neither empties nor freezes a queue.
A held pull has left its pool, and does not queue again when it wakes.

A busy pool of sends may hold the log: then a send takes its time in the put, under the lock of the
log, and the others wait for that lock in their threads.  While one put holds it for longer than
``page_cache_busy_ms`` the page cache is busy: sends that arrive and sends in the queue are
answered SYSTEM_BUSY, and requests of other pools cannot put.  These do not wait for the lock
before that, and the broker's own puts (delayed messages) neither wait nor fail; upstream's do.

Upstream: BrokerController.registerProcessor and its executors, ThreadPoolExecutor and its queue,
BrokerFastFailure, NettyRemotingAbstract.processRequestCommand,
DefaultMessageStore.isOSPageCacheBusy.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
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
    from rocketmq_emulator.broker.store.put_chain import PutChain
    from rocketmq_emulator.net.remoting import Remoting
    from rocketmq_emulator.settings.config import BrokerConfig


FIRST_CHECK_US, CHECK_INTERVAL_US = 1_000_000, 10_000  # BrokerFastFailure.start


class Capacity(NamedTuple):
    """Threads, service time and limits of a pool."""

    threads: int
    service_us: int  # of each request; 0: served at once
    queue_max: int  # requests that wait
    wait_us_max: int | None  # then the request is answered SYSTEM_BUSY; None: no limit
    hold_us_max: int | None = None  # of the log, until it is busy; None: requests do not hold it


class QueuedRequest(msgspec.Struct, eq=False):
    """One request in a pool: in the queue until ``dequeued_us``, served until ``ends_us``."""

    arrived_us: int
    dequeued_us: int = 0
    ends_us: int = 0
    holds_log_from_us: int = -1  # until ``ends_us``; -1: it does not hold it
    shed: ShedReason | None = None  # why it gets no thread, but is answered SYSTEM_BUSY
    is_over: bool = False


class Pool:
    """One pool; BrokerFastFailure, which checks its queue, started at *began_us*."""

    def __init__(self, capacity: Capacity, began_us: int) -> None:
        self.capacity = capacity
        self._checks_from_us = began_us + FIRST_CHECK_US
        self._visits: dict[QueuedRequest, None] = {}  # all requests, in the order of arrival
        self._queue: deque[QueuedRequest] = deque()  # those of them that may still wait
        self._free_us: list[int] = []  # a heap: the time at which each used thread is free again
        self._holds: deque[tuple[int, int]] = deque()  # of the log, one after the other: from, to

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

    def is_log_busy(self, now_us: int) -> bool:
        """Whether one put has held the log for too long."""
        holds, hold_us_max = self._holds, self.capacity.hold_us_max
        while holds and holds[0][1] <= now_us:
            holds.popleft()
        return bool(holds) and hold_us_max is not None and now_us - holds[0][0] > hold_us_max

    def change(self, capacity: Capacity, now_us: int) -> list[QueuedRequest]:
        """Replace the capacity; returns all requests in the pool, whose ends may have changed.

        A request that has a thread keeps its end, unless requests take no time now.
        """
        self.capacity = capacity
        served = [v for v in self._visits if v.dequeued_us <= now_us and not v.shed]
        waiting = [v for v in self._visits if v.dequeued_us > now_us]
        if not capacity.service_us:
            for visit in self._visits:
                if not visit.shed or visit.dequeued_us > now_us:
                    visit.dequeued_us = visit.ends_us = now_us
                    visit.shed = None
            waiting, served = [], []
        self._free_us = sorted(visit.ends_us for visit in served)[-capacity.threads :]
        holds = ((v.holds_log_from_us, v.ends_us) for v in served if v.holds_log_from_us >= 0)
        self._holds = deque(sorted(holds))
        self._queue.clear()
        for visit in waiting:
            self._decide(visit, now_us)
        return list(self._visits)

    # Inside ---------------------------------------------------------------------------

    def _decide(self, visit: QueuedRequest, now_us: int) -> None:
        threads, service_us = self.capacity.threads, self.capacity.service_us
        has_more = len(self._free_us) < threads
        begins_us = now_us if has_more else max(now_us, self._free_us[0])
        shed_us, visit.shed = self._shed(visit, begins_us, now_us)
        visit.holds_log_from_us = -1
        if visit.shed:
            visit.dequeued_us = visit.ends_us = max(shed_us, now_us)
        else:
            visit.dequeued_us, visit.ends_us = begins_us, begins_us + service_us
            if self.capacity.hold_us_max is not None:
                self._hold_log(visit)
            replace = heapq.heappush if has_more else heapq.heapreplace
            replace(self._free_us, visit.ends_us)
        if visit.dequeued_us > now_us:
            self._queue.append(visit)

    def _hold_log(self, visit: QueuedRequest) -> None:
        """The put begins when all earlier ones have ended; until then the thread waits."""
        free_us = self._holds[-1][1] if self._holds else 0
        visit.holds_log_from_us = max(visit.dequeued_us, free_us)
        visit.ends_us = visit.holds_log_from_us + self.capacity.service_us
        self._holds.append((visit.holds_log_from_us, visit.ends_us))

    def _shed(
        self, visit: QueuedRequest, begins_us: int, now_us: int
    ) -> tuple[int, ShedReason | None]:
        """The check that ends the wait of a request before *begins_us*, and why; or no reason.

        BrokerFastFailure ends the waits for a busy log before the long ones.
        """
        if self.capacity.wait_us_max is None or begins_us <= now_us:
            return begins_us, None
        too_long_us = self._check_us(visit.arrived_us + self.capacity.wait_us_max)
        log_busy_us = self._log_busy_us(now_us, min(too_long_us + 1, begins_us))
        if log_busy_us is not None:
            return log_busy_us, "page cache is busy"
        return (too_long_us, "waited too long") if too_long_us < begins_us else (begins_us, None)

    def _log_busy_us(self, now_us: int, before_us: int) -> int | None:
        """The first check from now on, and before *before_us*, that finds the log busy."""
        hold_us_max = self.capacity.hold_us_max
        if hold_us_max is None:
            return None
        for from_us, to_us in self._holds:
            if from_us + hold_us_max >= before_us:
                return None
            check_us = self._check_us(max(from_us + hold_us_max + 1, now_us))
            if check_us < min(to_us, before_us):
                return check_us
        return None

    def _check_us(self, at_us: int) -> int:
        """The first check of BrokerFastFailure at or after *at_us*."""
        intervals = max(0, -(-(at_us - self._checks_from_us) // CHECK_INTERVAL_US))
        return self._checks_from_us + intervals * CHECK_INTERVAL_US

    def _drop_dequeued(self, now_us: int) -> None:
        queue = self._queue
        while queue and queue[0].dequeued_us <= now_us:
            if queue[0].shed and not queue[0].is_over:
                return
            queue.popleft()


# The pools of a broker ----------------------------------------------------------------


OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
_CLEANED = (
    "[{}]broker busy, start flow control for a while, period in queue: {}ms, size of queue: {}"
)
_CLEANED_FOR: Mapping[ShedReason, str] = {
    "waited too long": "TIMEOUT_CLEAN_QUEUE",
    "page cache is busy": "PCBUSY_CLEAN_QUEUE",
}


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

_NOT_REJECTED = frozenset({RequestCode.RECALL_MESSAGE})  # it has a processor of its own

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

    def __init__(self, server: Remoting, config: BrokerConfig, puts: PutChain) -> None:
        self._server = server
        self._puts = puts
        self._config = config
        self._began_us = server.clock.mono_us()
        self._busy: dict[PoolName, _Busy] = {}

    def set_pool(self, call: Call[Header]) -> Result:
        """Change a pool's capacity, or make it not busy: then its requests end at once."""
        check_allowed("busy pools are", allowed=self._config.reply_rules_allowed)
        wanted = extension_body_of(call, BusyPool)
        state = self._state(wanted.pool)
        busy, capacity = self._busy.get(wanted.pool), self._capacity(wanted)
        if busy is None or busy.pool.capacity != capacity:  # else only the state is queried
            self._set(wanted)
            threads, service_us, queue_max = capacity[:3]
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
        now_us = self._server.clock.mono_us()
        if busy.pool.is_log_busy(now_us) and code not in _NOT_REJECTED:
            return self._refuse(busy, call, REJECTED, "page cache is busy")
        visit = busy.pool.arrive(now_us)
        if visit is None:
            return self._refuse(busy, call, OVERLOAD, "queue is full")
        return self._until_done(busy, visit, call)

    def check_log(self, message: MessageToStore, _now_ms: int) -> MessageToStore:
        """The transform of puts while sends hold the log: raises ``PutRefused`` if it is busy."""
        busy = self._busy.get("send")
        if busy is not None and busy.pool.is_log_busy(self._server.clock.mono_us()):
            raise PutRefused(PutStatus.OS_PAGE_CACHE_BUSY, "a put holds the log for too long")
        return message

    def waiting(self, name: PoolName) -> tuple[int, int]:
        """The number of requests that wait in a pool, and the ms the oldest has waited."""
        if (busy := self._busy.get(name)) is None:
            return 0, 0
        now_us = self._server.clock.mono_us()
        return busy.pool.waiting_count(now_us), busy.pool.head_waited_us(now_us) // 1000

    # Inside ---------------------------------------------------------------------------

    def _refuse(self, busy: _Busy, call: Call[Any], remark: str, reason: ShedReason) -> Reply:
        busy.overload_count += 1
        self._note_shed(busy, call, waited_ms=0, reason=reason)
        return Reply(code=ResponseCode.SYSTEM_BUSY, remark=remark)

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
        if visit.shed is None:
            return None
        waited_ms = (now_us - visit.arrived_us) // 1000
        busy.shed_count += 1
        size = busy.pool.waiting_count(now_us)
        self._note_shed(busy, call, waited_ms, visit.shed)
        remark = _CLEANED.format(_CLEANED_FOR[visit.shed], waited_ms, size)
        return Reply(code=ResponseCode.SYSTEM_BUSY, remark=remark)

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
        sends = self._busy.get("send")
        holds_log = sends is not None and sends.wanted.holds_log
        self._puts.guard(self.check_log if holds_log else None)

    def _capacity(self, wanted: BusyPool) -> Capacity:
        size = size_of(wanted.pool, self._config)
        wait_ms_max = size.wait_ms_max
        return Capacity(
            threads=wanted.threads or size.threads,
            service_us=round(wanted.service_ms * 1000),
            queue_max=size.queue_max if wanted.queue_max is None else wanted.queue_max,
            wait_us_max=None if wait_ms_max is None else wait_ms_max * 1000,
            hold_us_max=self._config.page_cache_busy_ms * 1000 if wanted.holds_log else None,
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


def install_busy_pools(server: Remoting, config: BrokerConfig, puts: PutChain) -> BusyPools:
    """Add the handler of SET_BUSY_POOL to *server*, and make its requests wait in busy pools."""
    pools = BusyPools(server, config, puts)
    rows = (Row(catalog.SET_BUSY_POOL, pools.set_pool),)
    server.handlers = {**server.handlers, **table_of(rows, server.release)}
    return pools

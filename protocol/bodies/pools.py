"""How busy a pool of a broker is: the body of SET_BUSY_POOL (9006) and of its reply.

    BusyPool(pool="send", threads=1, service_ms=50)
    BusyPool(pool="send")                             as before: requests wait for nobody

Like reply rules: plain JSON with these very names, checked when it is constructed.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from protocol.bodies.own import OwnBody

PoolName: TypeAlias = Literal[
    "send",
    "pull",
    "lite_pull",
    "query",
    "client_manage",
    "consumer_manage",
    "heartbeat",
    "end_transaction",
    "load_balance",
    "admin",
]
POOL_NAMES: tuple[PoolName, ...] = get_args(PoolName)
THREADS_MAX = 10_000
SERVICE_MS_MAX = 3_600_000
QUEUE_MAX = 1_000_000  # the largest of upstream's


class BusyPool(OwnBody, frozen=True, omit_defaults=True):
    """From now on each request of ``pool`` takes ``service_ms`` of one of its ``threads``.

    ``queue_max`` requests may wait for a thread; None is upstream's number, for threads as
    on a machine with four processors.  With 0 ms the pool is as before.

    Raises ``ValueError`` with the name of the field that is wrong.
    """

    pool: PoolName
    threads: int | None = None
    service_ms: float = 0.0
    queue_max: int | None = None

    def __post_init__(self) -> None:
        if self.pool not in POOL_NAMES:
            raise ValueError(f"pool is one of {', '.join(POOL_NAMES)}, not {self.pool}")
        if self.threads is not None and not 1 <= self.threads <= THREADS_MAX:
            raise ValueError(f"threads is a number from 1 to {THREADS_MAX}, not {self.threads}")
        if not 0 <= self.service_ms <= SERVICE_MS_MAX:
            text = f"service_ms is a number from 0 to {SERVICE_MS_MAX}, not {self.service_ms}"
            raise ValueError(text)
        if self.queue_max is not None and not 0 <= self.queue_max <= QUEUE_MAX:
            raise ValueError(f"queue_max is a number from 0 to {QUEUE_MAX}, not {self.queue_max}")


class BusyPoolState(OwnBody, frozen=True):
    """The pool as it was until this call, and what it did since it is busy."""

    pool: PoolName
    request_count: int  # requests that came to it since then; 0 if it is not busy
    waiting_count: int  # of those, that waited for a thread until now
    shed_count: int  # that waited too long and were answered SYSTEM_BUSY
    overload_count: int  # that found the queue full and were answered SYSTEM_BUSY

"""What ours must reach: a ratio beside a real RocketMQ, or a figure of its own."""

from __future__ import annotations

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """One row of a table, and the bounds of its ratio or value.  No bound: only reported."""

    key: str
    title: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    aim: float | None = None

    def is_reached(self, found: float) -> bool | None:
        if self.at_most is not None:
            return found <= self.at_most
        if self.at_least is not None:
            return found >= self.at_least
        return None

    @property
    def text(self) -> str:
        """``≥ 1.6, aim 2.4``."""
        words = []
        if self.at_most is not None:
            words.append(f"≤ {float(f'{self.at_most:.3g}'):,.10g}")
        if self.at_least is not None:
            words.append(f"≥ {self.at_least:,.6g}")
        if self.aim is not None:
            words.append(f"aim {self.aim:,.6g}")
        return ", ".join(words)


# Ours divided by real.
BESIDE_REAL = (
    Goal("start_s", "start → all brokers ready", "s", at_most=0.1),
    Goal("first_s", "… → Java client's first message", "s", at_most=1.0),
    Goal("idle_mb", "servers' memory, idle", "MB", at_most=1 / 6, aim=0.1),
    Goal("loaded_mb", "servers' memory, after the load", "MB", at_most=1 / 6, aim=0.1),
    Goal("send_1", "Java sends, sync, 1 thread", "/s", at_least=1.6, aim=2.4),
    Goal("send_32", "Java sends, sync, 32 threads", "/s", at_least=1.6, aim=2.2),
    Goal("async_1000", "Java sends, async, 1,000 open", "/s", at_least=1.0, aim=1.3),
    Goal("sync_1", "Java sends, SYNC_FLUSH, 1 thread", "/s", at_least=0.8),
    Goal("sync_32", "Java sends, SYNC_FLUSH, 32 threads", "/s", at_least=1.0),
    Goal("consume", "Java push consumer, backlog", "/s", at_least=1.0, aim=1.6),
)

# Ours alone.
ALONE = (
    Goal("embedded_ms", "embedded start, modules imported", "ms", at_most=50),
    Goal("restart_ms", "a broker restarted → in the route again", "ms", at_most=1_000),
    Goal("own_first_ms", "our client: start → first message", "ms"),
    Goal("own_async", "our client: async sends", "/s", aim=16_000),
    Goal("own_calls", "our client: awaited sends of 32 tasks", "/s", aim=7_500),
    Goal("own_consume", "our client: consumes a backlog", "/s", aim=100_000),
    Goal("own_through", "our client: produced and consumed", "/s"),
    Goal("own_trio_1_cpu_us", "our client, CPU of an awaited send: 1 task", "µs"),
    Goal("own_sync_1_cpu_us", "… for threads: 1 thread", "µs"),
    Goal("own_aio_1_cpu_us", "… for asyncio: 1 task", "µs"),
    Goal("own_trio_32_cpu_us", "our client, CPU of an awaited send: 32 tasks", "µs"),
    Goal("own_sync_32_cpu_us", "… for threads: 32 threads", "µs"),
    Goal("own_aio_32_cpu_us", "… for asyncio: 32 tasks", "µs"),
    Goal("own_sync_1_share", "client for threads, 1 thread: rate as a fraction of trio's", ""),
    Goal("own_sync_32_share", "… 32 threads", ""),
    Goal("own_aio_1_share", "client for asyncio, 1 task: rate as a fraction of trio's", ""),
    Goal("own_aio_32_share", "… 32 tasks", ""),
    Goal("idle_all_mb", "memory with its watching process, idle", "MB"),
    Goal("loaded_all_mb", "the same, after the load", "MB"),
    Goal("echo", "our shell: pipelined echo", "/s"),
    Goal("send_v2", "one broker: pipelined SEND_MESSAGE_V2", "/s"),
    Goal("send_share", "… as a fraction of the echo", "", aim=0.25),
    Goal("held_pull_bytes", "memory of one of 10,000 held pulls", "B"),
    Goal("wake_ms", "a queue's ten pulls woken, median", "ms"),
    Goal("wake_ms_max", "… the slowest of a hundred queues", "ms"),
    Goal(
        "virtual",
        "virtual s a real s, 3 brokers + 10 idle",
        "",
        at_least=1_000,
        aim=3_000,
    ),
)

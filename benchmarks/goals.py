"""Goals of the benchmarks: ratios to a real RocketMQ, and figures of the emulator alone."""

from __future__ import annotations

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """One row of a table, and the bounds of its ratio or value.  Without a bound: no verdict."""

    key: str
    title: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    aim: float | None = None
    before: float | None = None  # the value before work on it began, on the same machine

    def is_reached(self, found: float) -> bool | None:
        if self.at_most is not None:
            return found <= self.at_most
        if self.at_least is not None:
            return found >= self.at_least
        return None

    @property
    def text(self) -> str:
        """The bounds and the aim, as ``≥ 1.6, aim 2.4``."""
        words = []
        if self.at_most is not None:
            words.append(f"≤ {float(f'{self.at_most:.3g}'):,.10g}")
        if self.at_least is not None:
            words.append(f"≥ {self.at_least:,.6g}")
        if self.aim is not None:
            words.append(f"aim {self.aim:,.6g}")
        return ", ".join(words)


# The emulator's value divided by the real RocketMQ's.
BESIDE_REAL = (
    Goal("start_s", "start → all brokers ready", "s", at_most=0.1),
    Goal("first_s", "… → Java client's first message", "s", at_most=1.0),
    Goal("idle_mb", "servers' memory, idle", "MB", at_most=1 / 6, aim=0.1),
    Goal("loaded_mb", "servers' memory, after the load", "MB", at_most=1 / 6, aim=0.1),
    Goal("send_1", "Java sends, sync, 1 thread", "/s", at_least=1.6, aim=2.4),
    Goal("send_32", "Java sends, sync, 32 threads", "/s", at_least=1.6, aim=2.2),
    Goal("async_1000", "Java sends, async, 1,000 open", "/s", at_least=1.0, aim=1.3),
    Goal("commit_new_32", "Java transactions, 32 threads, new cluster", "/s", at_least=1.5),
    Goal("commit_32", "… after the sends above", "/s", at_least=1.5),
    Goal("sync_1", "Java sends, SYNC_FLUSH, 1 thread", "/s", at_least=0.8),
    Goal("sync_32", "Java sends, SYNC_FLUSH, 32 threads", "/s", at_least=1.0),
    Goal("consume", "Java push consumer, backlog", "/s", at_least=1.0, aim=1.6),
    Goal("consume_sql", "… filtered by SQL92, half of it matches", "/s", at_least=1.0),
)

# The same, of masters with slaves.
REPLICATED = (
    Goal("pairs_start_s", "start of 2 masters, 2 slaves, a controller", "s", at_most=0.1),
    Goal("pairs_mb", "their memory, idle", "MB", at_most=0.2),
    Goal("replicated_1", "Java sends, SYNC_MASTER, 1 thread", "/s", at_least=1.0),
    Goal("replicated_32", "Java sends, SYNC_MASTER, 32 threads", "/s", at_least=1.0),
    Goal("lag_ms", "a slave behind its ASYNC_MASTER, 1,000 sends open", "ms"),
    Goal("caught_up", "a slave that was away catches up", "MB/s", at_least=1.0),
)
SLAVES_VIRTUAL = Goal(
    "slaves_virtual", "CPU of 2 brokers with slaves, by that of 4 masters", "", at_most=1.5
)

# The emulator alone.
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
    Goal("echo", "a server without a broker: pipelined echo", "/s"),
    Goal("send_v2", "one broker: pipelined SEND_MESSAGE_V2", "/s"),
    Goal("send_share", "… as a fraction of the echo", "", aim=0.25),
    Goal("sql_us", "an SQL92 filter of three comparisons: CPU", "µs", at_most=3),
    Goal("sql_decoded_us", "… with the decoding of a message's properties", "µs", at_most=6),
    Goal("held_pull_bytes", "memory of one of 10,000 held pulls", "B"),
    Goal("wake_ms", "a queue's ten pulls woken, median", "ms"),
    Goal("wake_ms_max", "… the slowest of a hundred queues", "ms"),
    Goal(
        "virtual",
        "virtual s per real s, 3 brokers + 10 idle",
        "",
        at_least=1_000,
        aim=3_000,
    ),
)

# Scenarios, checkers, reports and the plugin.
SCRIPTED = (
    Goal("virtual_0", "virtual s per CPU s, 3 brokers + 5 consumers, idle", "", before=1_500),
    Goal("virtual_10", "… with 10 messages/s", "", before=214),
    Goal("virtual_100", "… with 100 messages/s", "", before=28.6),
    Goal("virtual_1000", "… with 1,000 messages/s", ""),
    Goal("weather_10_0", "weather, 10 messages/s: seeds per CPU s", "/s", aim=8, before=3.6),
    Goal("weather_10_share", "… two jobs instead of one", "", aim=2),
    Goal("weather_100_0", "weather, 100 messages/s: seeds per CPU s", "/s", aim=1, before=0.47),
    Goal("read_per_s", "facts read from a journal", "/s"),
    Goal("judged_per_s", "facts judged by all checkers", "/s", aim=500_000, before=158_000),
    Goal("read_and_judged_per_s", "facts read and judged", "/s"),
    Goal("report_s", "report of a million facts, judged: CPU", "s", aim=20, before=40.8),
    Goal("drawn_s", "… without judging: CPU", "s", before=16.8),
    Goal("report_mb", "… its page", "MB", at_most=15, before=5.0),
    Goal("plugin_import_ms", "the pytest plugin is loaded", "ms"),
    Goal("plugin_embedded_ms", "a cluster in a thread is ready", "ms", at_most=50),
    Goal("plugin_processes_ms", "a cluster of processes is ready", "ms", at_most=400),
    Goal("plugin_reset_ms", "reset, 2 brokers", "ms", at_most=10),
    Goal("plugin_reset_topics_ms", "reset, and a topic created again", "ms", at_most=10),
    Goal("sweep_spark_start_s", "Spark starts", "s"),
    Goal("sweep_swept_1", "sweep on Spark, runs of about a second: one core", "/s"),
    Goal("sweep_swept_2", "… two cores", "/s"),
    Goal("sweep_cores_share", "… two cores instead of one", "", aim=2),
    Goal("sweep_overhead_1", "… longer than the plain runner, one core", "", aim=0.1),
    Goal("sweep_overhead_2", "… two cores", "", aim=0.1),
    Goal("sweep_asked_2", "sweep of a question, two cores: rows", "/s"),
    Goal("spark_start_s", "Spark starts, for the tables", "s"),
    Goal("tables_1", "journal to gold tables on Spark: one run of 20,000 facts", "facts/s"),
    Goal("tables_10", "… of 200,000", "facts/s"),
    Goal("tables_100", "… of 2,000,000", "facts/s"),
    Goal("source_ours_spark", "a topic of ours into Spark, one core, all columns, 100 B", "/s"),
    Goal("source_ours_java", "… into the Java client", "/s"),
    Goal("source_real_spark", "a topic of a real 4.9.7 into Spark", "/s"),
    Goal("source_real_java", "… into the Java client", "/s"),
)

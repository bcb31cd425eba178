"""A broker's own figures, which tools poll.

Answers GET_BROKER_RUNTIME_INFO and VIEW_BROKER_STATS_DATA in every release, with upstream's keys;
GET_BROKER_HA_STATUS and, for a broker with a controller, GET_BROKER_EPOCH_CACHE (both 5.x).
Requests wait only in pools set by SET_BUSY_POOL; storing takes no measured
time, so latencies are 0.  Does not count by queue, bytes read from disk, or the delay of reads
(``GROUP_GET_LATENCY`` and similar items do not exist here).

Upstream: AdminBrokerProcessor.prepareRuntimeInfo, getBrokerHaStatus, getBrokerEpochCache,
StoreStatsService.getRuntimeInfo.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rocketmq_emulator.broker.replication.auto_switch import AutoSwitchHaService
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.checks import java_text
from rocketmq_emulator.broker.tables.figures import RATE_WINDOWS_S
from rocketmq_emulator.clocks.sampled_sums import SampledSums
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.controller import EpochEntryCache, SyncStateSet
from rocketmq_emulator.protocol.bodies.extensions import PoolName
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.stats import HARuntimeInfo
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.java.java_json_writer import java_double
from rocketmq_emulator.protocol.messages.delay_levels import queue_of_level
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.protocol.requests.admin import ViewBrokerStatsDataRequest
from rocketmq_emulator.protocol.requests.controller import NotifyBrokerRoleChangedRequest
from rocketmq_emulator.protocol.versions import version_desc
from rocketmq_emulator.settings.releases import (
    ACK_POOL_SHOWN,
    EARLIEST_TIME_EXACT,
    RUNTIME_INFO_OF_5,
)

INT_MAX = 2**31 - 1
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
# The pools that are shown, and the setting of the capacity of the queue of each.
_POOLS = {"send": "send_queue_max", "pull": "pull_queue_max", "query": "query_queue_max"}
_POOLS_5 = {**_POOLS, "litePull": "lite_pull_queue_max"}
_ACK_POOL = {  # no request of this pool is answered, and none waits
    "ackThreadPoolQueueSize": "0",
    "ackThreadPoolQueueCapacity": "100000",
    "ackThreadPoolQueueHeadWaitTimeMills": "0",
}
_NAMES: dict[str, PoolName] = {
    "send": "send",
    "pull": "pull",
    "query": "query",
    "litePull": "lite_pull",
}
_FIXED = {
    "putMessageEntireTimeMax": "0",
    "putMessageDistributeTime": "null",  # as in real brokers
    "dispatchMaxBuffer": "0",
    "getMessageEntireTimeMax": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "dispatchBehindBytes": "0",
    "pageCacheLockTimeMills": "0",
    "startAcceptSendRequestTimeStamp": "0",
    "remainTransientStoreBufferNumbs": str(INT_MAX),
}
_NO_HA = "Can not get HARuntimeInfo, may be duplicationEnable is true"
_TIMERS_RATE_S = 10  # PerfCounter: the interval of one count
_NO_TIMERS = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


class RuntimeInfoProcessor:
    """Totals, rates and sizes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._is_5 = broker.release >= RUNTIME_INFO_OF_5
        self._shown_pools = _POOLS_5 if self._is_5 else _POOLS
        self._ack_pool = _ACK_POOL if broker.release >= ACK_POOL_SHOWN else {}

    def runtime_info(self, call: Call[Header]) -> Result:
        """All figures as texts, by upstream's names."""
        figures = self._broker.store.figures
        figures.count_up()
        figures.pass_midnight(call.now_ms)
        table = {
            **_FIXED,
            **(self._of_5(call.now_ms) if self._is_5 else {}),
            **self._pools(),
            **self._times(call.now_ms),
            **self._totals(),
            **self._rates(call.now_ms),
            **self._sizes(),
            **self._delays(),
        }
        return Reply(body=encode_body(KVTable(table=table), self._broker.release))

    def stats_item(self, call: Call[ViewBrokerStatsDataRequest]) -> Result:
        """Sum, rate and mean of one item over a minute, an hour and a day."""
        name, key = java_text(call.request.stats_name), java_text(call.request.stats_key)
        found = self._broker.store.figures.item(name, key, call.now_ms)
        if found is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return Reply(body=encode_body(found, self._broker.release))

    def _pools(self) -> dict[str, str]:
        waiting, config = self._broker.waiting, self._broker.config
        found = {
            "EndTransactionQueueSize": str(waiting("end_transaction")[0]),
            "EndTransactionThreadPoolQueueCapacity": str(config.end_transaction_queue_max),
            **self._ack_pool,
        }
        for name, capacity in self._shown_pools.items():
            count, head_ms = waiting(_NAMES[name])
            found[f"{name}ThreadPoolQueueSize"] = str(count)
            found[f"{name}ThreadPoolQueueCapacity"] = str(getattr(config, capacity))
            found[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = str(head_ms)
        return found

    def _times(self, now_ms: int) -> dict[str, str]:
        broker = self._broker
        began_ms = broker.store.figures.began_ms
        seconds = max(0, now_ms - began_ms) // 1_000
        days, seconds = divmod(seconds, _DAY_S)
        hours, seconds = divmod(seconds, _HOUR_S)
        minutes, seconds = divmod(seconds, _MINUTE_S)
        return {
            "bootTimestamp": str(began_ms),
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
            "brokerVersion": str(broker.release.version),
            "brokerVersionDesc": version_desc(broker.release.version),
            "earliestMessageTimeStamp": str(self._earliest_ms()),
        }

    def _earliest_ms(self) -> int:
        """The store time of the oldest message; -1 if there is none.

        Before 5.1 also -1 if the log is shorter than two messages of the largest size.
        """
        store = self._broker.store
        log_bytes = store.log.end_position - store.log.min_position
        needed = 0
        if self._broker.release < EARLIEST_TIME_EXACT:
            needed = 2 * self._broker.config.message_bytes_max
        return store.first_store_ms() if log_bytes > needed else -1

    def _totals(self) -> dict[str, str]:
        figures = self._broker.store.figures
        puts, (morning, before) = figures.puts, figures.mornings
        calls = puts.messages or 1  # as upstream, which uses it as a divisor
        return {
            "putMessageTimesTotal": str(calls),
            "putMessageFailedTimes": str(figures.put_failures),
            "putMessageSizeTotal": str(puts.size),
            "putMessageAverageSize": java_double(puts.size / calls),
            "msgPutTotalTodayNow": str(figures.put_total),
            "msgPutTotalTodayMorning": str(morning[0]),
            "msgPutTotalYesterdayMorning": str(before[0]),
            "msgGetTotalTodayNow": str(figures.got_total),
            "msgGetTotalTodayMorning": str(morning[1]),
            "msgGetTotalYesterdayMorning": str(before[1]),
        }

    def _rates(self, now_ms: int) -> dict[str, str]:
        """Rates over 10, 60 and 600 seconds; empty while the broker is younger than that."""
        figures = self._broker.store.figures

        def rates(sums: SampledSums, *, of_calls: bool = False) -> list[float | None]:
            return [sums.rate(s, now_ms, of_calls=of_calls) for s in RATE_WINDOWS_S]

        found, missed = rates(figures.gets, of_calls=True), rates(figures.misses)
        totals = [(f or 0.0) + (m or 0.0) for f, m in zip(found, missed, strict=True)]
        transferred = "getTransferredTps" if self._is_5 else "getTransferedTps"
        return {
            "putTps": _rates_text(rates(figures.puts)),
            "getFoundTps": _rates_text(found),
            "getMissTps": _rates_text(missed),
            "getTotalTps": _rates_text(totals),
            transferred: _rates_text(rates(figures.gets)),
        }

    def _sizes(self) -> dict[str, str]:
        broker, log = self._broker, self._broker.store.log
        folder = f"{broker.config.store}/commitlog" if broker.config.store else "memory"
        space = broker.store.space()
        total, free = byte_count(space.total_bytes), byte_count(space.free_bytes)
        found = {
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
            "commitLogMinOffset": str(log.min_position),
            "commitLogMaxOffset": str(log.end_position),
            "remainHowManyDataToFlush": byte_count(broker.store.flushing.unflushed_bytes),
        }
        used = 1 - space.free_bytes / space.total_bytes if space.total_bytes else 0.0
        ratio = java_double(math.ceil(100 * used) / 100)
        names = ("commitLogDiskRatio", f"commitLogDiskRatio_{folder}", "consumeQueueDiskRatio")
        return found | dict.fromkeys(names, ratio)

    def _of_5(self, now_ms: int) -> dict[str, str]:
        """What 5.x adds: whether the special services run, and the figures of timers.

        Upstream: BrokerController.isSpecialServiceRunning.
        """
        is_active = "true" if self._broker.has_special_services else "false"
        return {"brokerActive": is_active, **self._timers(now_ms)}

    def _timers(self, now_ms: int) -> dict[str, str]:
        """Waiting timer messages, their lateness, and the rates of enqueuing and dequeuing."""
        timers = self._broker.timers
        if timers is None:
            return _NO_TIMERS
        enqueued = timers.enqueued.rate(_TIMERS_RATE_S, now_ms) or 0.0
        dequeued = timers.dequeued.rate(_TIMERS_RATE_S, now_ms) or 0.0
        return {
            "timerReadBehind": str(timers.late_ms(now_ms) // 1_000),
            "timerOffsetBehind": str(timers.unread_count()),
            "timerCongestNum": str(timers.waiting_count()),
            "timerEnqueueTps": java_double(enqueued),
            "timerDequeueTps": java_double(dequeued),
        }

    def _delays(self) -> dict[str, str]:
        """For each level with progress: the next offset to deliver, and the end of its queue.

        Upstream: ScheduleMessageService.buildRunningStats.
        """
        broker = self._broker
        return {
            f"scheduleMessageOffset_{level}": (
                f"{offset},{broker.store.max_offset(SCHEDULE_TOPIC, queue_of_level(level))}"
            )
            for level, offset in broker.delays.offset_table.items()
        }


def _rates_text(rates: Sequence[float | None]) -> str:
    return " ".join("" if rate is None else java_double(rate) for rate in rates)


def byte_count(count: int) -> str:
    """*count* bytes as a text in units of 1024.  Upstream: MixAll.humanReadableByteCount."""
    if count < 1024:
        return f"{count} B"
    exponent = min(6, (count.bit_length() - 1) // 10)
    return f"{count / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"


# Replicas -----------------------------------------------------------------------------


class ReplicaProcessor:
    """Replication figures: a master's of each slave, or a slave's of its copy."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def ha_status(self, _call: Call[Header]) -> Result:
        """The end of the log and the connected slaves; of a slave, the state of its copy."""
        broker = self._broker
        if broker.ha_client is not None:
            copy = broker.ha_client.runtime_info(broker.master_flush_offset)
            body = HARuntimeInfo(ha_client_runtime_info=copy)
        elif broker.ha is not None:
            body = broker.ha.runtime_info()
        else:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _NO_HA)
        return Reply(body=encode_body(body, broker.release))

    def role_changed(self, call: Call[NotifyBrokerRoleChangedRequest]) -> Result:
        """Take the role that the controller gives, if its epoch is larger than the last.

        Upstream: AdminBrokerProcessor.notifyBrokerRoleChanged.
        """
        in_sync = decode_body(call.body, SyncStateSet)
        if (manager := self._broker.controlled) is not None:
            manager.change_role(call.request, in_sync)
        return Reply()

    def epoch_cache(self, _call: Call[Header]) -> Result:
        """The epochs of the log; refused by a broker without a controller, which has none.

        Upstream: AdminBrokerProcessor.getBrokerEpochCache.
        """
        broker = self._broker
        if not isinstance(broker.ha, AutoSwitchHaService):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
        config = broker.config
        body = EpochEntryCache(
            cluster_name=config.cluster,
            broker_name=config.name,
            broker_id=config.broker_id,
            epoch_list=broker.ha.epoch_entries(),
            max_offset=broker.ha.log.end_position,
        )
        return Reply(body=encode_body(body, broker.release))

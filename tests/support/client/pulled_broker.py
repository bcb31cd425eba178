"""A broker with scripted answers, from which consumers can pull.

Each call takes one answer of ``replies[code]``; without any, the broker answers normally.
``SILENT`` is an answer that never comes.  ``received[code]`` has all requests with times.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rocketmq_emulator.client.consumer.pull.lite_pull_consumer import LitePullConsumer
from rocketmq_emulator.client.consumer.pull.pull_consumer import PullConsumer
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.net.results import NO_REPLY, Reply, Wait
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    ClientConnection,
    ConsumerConnection,
    GetConsumerListByGroupReply,
    LockBatchReply,
    LockBatchRequestBody,
)
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.flags import SUSPEND
from rocketmq_emulator.protocol.messages.properties import encode_properties
from rocketmq_emulator.protocol.messages.records import encode_record
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.offsets import OffsetReply
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import run_virtual
from tests.support.client.client_cluster import SILENT, Cluster, FakeBroker

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
PULL, LIST, LOCK, UNLOCK, BACK = 11, 38, 41, 42, 36
RPCS = {
    RequestCode.PULL_MESSAGE: catalog.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE: catalog.LITE_PULL_MESSAGE,
    RequestCode.GET_MIN_OFFSET: catalog.GET_MIN_OFFSET,
    RequestCode.QUERY_CONSUMER_OFFSET: catalog.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET: catalog.UPDATE_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET: catalog.GET_MAX_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: catalog.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.CONSUMER_SEND_MSG_BACK: catalog.CONSUMER_SEND_MSG_BACK,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: catalog.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: catalog.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.LOCK_BATCH_MQ: catalog.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ: catalog.UNLOCK_BATCH_MQ,
}


def in_group(steps, *, queues=1, seed=1):
    """Run ``main(cluster, broker)``: one broker, a topic ``T``, links that take no time."""

    async def main(world):
        cluster = GroupCluster(world)
        await cluster.start("broker-a", topics={"T": queues})
        return await steps(cluster, cluster.brokers["broker-a"])

    return run_virtual(main, seed=seed, latency=Latency(us_min=0, us_max=0))


class GroupCluster(Cluster):
    async def add_broker(self, name, broker_id=0):
        broker = PulledBroker(self, name, broker_id)
        self.brokers[name if broker_id == 0 else f"{name}-{broker_id}"] = broker
        await broker.start()
        return broker

    def a_pull_consumer(self, process, **settings) -> PullConsumer:
        return PullConsumer(process=process, **self._of_member(process, settings))

    def a_lite_consumer(self, process, topics=None, **settings) -> LitePullConsumer:
        return LitePullConsumer(topics, process=process, **self._of_member(process, settings))

    def _of_member(self, process, settings):
        named = {"group": "cg", "namesrv": self.namesrv.address, "release": "4.9.7"}
        return {**named, "client_ip": process.ip, **settings}

    def a_consumer(self, process, listener=lambda messages: None, **settings) -> PushConsumer:
        named = {
            "group": "cg",
            "namesrv": self.namesrv.address,
            "listeners_inline": True,
            "client_ip": process.ip,
            "release": "4.9.7",
            **settings,
        }
        topics = named.pop("topics", {"T": "*"})
        return PushConsumer(listener, topics, process=process, **named)


class PulledBroker(FakeBroker):
    """Its queues are dicts of records by offset; ``offsets`` are the stored offsets of groups."""

    def __init__(self, cluster, name, broker_id=0) -> None:
        self.received: dict[int, list[Any]] = defaultdict(
            list
        )  # code -> [(seconds, request or body)]
        self.commands: list[Any] = []
        self.replies: dict[Any, list[Any]] = defaultdict(list)
        self.queues: dict[Any, dict[Any, Any]] = defaultdict(dict)
        self.offsets: dict[Any, Any] = {}
        self.members = None  # None: those that have sent a heartbeat
        self.refused: set[int] = set()  # queue ids whose locks are refused
        super().__init__(cluster, name, broker_id)

    def _table(self):
        mine = {code: (rpc, self._scripted) for code, rpc in RPCS.items()}
        return super()._table() | mine

    # Called by tests ------------------------------------------------------------------

    def store(self, count, *, queue_id=0, topic="T", properties=(), times=0) -> None:
        queue = self.queues[topic, queue_id]
        block = encode_properties(dict(properties), trailing=True)
        for offset in range(len(queue), len(queue) + count):
            queue[offset] = encode_record(
                topic.encode(),
                b"body",
                block,
                queue_id=queue_id,
                queue_offset=offset,
                position=offset * 1000,
                born_ms=0,
                born_host=HOST,
                store_ms=0,
                store_host=HOST,
                reconsume_times=times,
            )
        self.server.ring((topic, queue_id), None)

    def pulls(self, queue_id=0, topic="T"):
        """(seconds, offset) of every pull of a queue."""
        return [
            (round(at, 3), request.queue_offset)
            for at, request in self.received[PULL]
            if (request.topic, request.queue_id) == (topic, queue_id)
        ]

    def times(self, code):
        return [round(at, 3) for at, _ in self.received[code]]

    def requests(self, code):
        return [request for _, request in self.received[code]]

    # Answers --------------------------------------------------------------------------

    def _scripted(self, call):
        code = call.command.code
        self.commands.append(call.command)
        self.received[code].append((self.now_s(), call.request if not call.body else call.body))
        if self.replies[code]:
            reply = self.replies[code].pop(0)
            return NO_REPLY if reply is SILENT else reply
        return NORMAL[code](self, call)

    def _pull(self, call):
        request = call.request
        queue = self.queues[request.topic, request.queue_id]
        first, end = min(queue, default=0), len(queue) + min(queue, default=0)
        start = request.queue_offset
        if not first <= start <= end:
            return self._pulled(ResponseCode.PULL_OFFSET_MOVED, min(max(start, first), end))
        found = [queue[at] for at in range(start, min(end, start + request.max_msg_nums))]
        if found:
            return self._pulled(ResponseCode.SUCCESS, start + len(found), b"".join(found))

        if not request.sys_flag & SUSPEND:
            return self._pulled(ResponseCode.PULL_NOT_FOUND, start)

        def resume(now_ms, expired):
            if expired:
                return self._pulled(ResponseCode.PULL_NOT_FOUND, start)
            return self._pull(call)

        until_ms = call.now_ms + request.suspend_timeout_millis
        return Wait((request.topic, request.queue_id), until_ms, resume)

    def _pulled(self, code, next_offset, body=b"", suggest=0):
        header = PullMessageReply(
            suggest_which_broker_id=suggest,
            next_begin_offset=next_offset,
            min_offset=0,
            max_offset=0,
        )
        return Reply(header, body, code)

    def _query_offset(self, call):
        offset = self.offsets.get((call.request.topic, call.request.queue_id))
        if offset is None:
            return Reply(code=ResponseCode.QUERY_NOT_FOUND, remark="no offset")
        return Reply(OffsetReply(offset=offset))

    def _update_offset(self, call):
        self.offsets[call.request.topic, call.request.queue_id] = call.request.commit_offset
        return Reply()

    def _max_offset(self, call):
        queue = self.queues[call.request.topic, call.request.queue_id]
        return Reply(OffsetReply(offset=max(queue, default=-1) + 1))

    def _min_offset(self, call):
        queue = self.queues[call.request.topic, call.request.queue_id]
        return Reply(OffsetReply(offset=min(queue, default=0)))

    def _search_offset(self, call):
        return Reply(OffsetReply(offset=7))

    def _send_back(self, call):
        return Reply()

    def _list(self, call):
        ids = self.members
        if ids is None:
            ids = self._heard_clients()
        body = GetConsumerListByGroupReply(consumer_id_list=ids)
        return Reply(body=encode_body(body, R_4_9_7))

    def _heard_clients(self) -> list[str | None]:
        return [*sorted({data.client_id or "" for _, data in self.heartbeats})]

    def _connections(self, _call):
        """Every client that has sent a heartbeat, with release 4.9.7."""
        ids = self._heard_clients()
        connections = [ClientConnection(client_id=i, version=R_4_9_7.version) for i in ids]
        body = ConsumerConnection(connection_set=connections)
        return Reply(body=encode_body(body, R_4_9_7))

    def _lock(self, call):
        wanted = decode_body(call.body, LockBatchRequestBody).mq_set
        granted = [queue for queue in wanted if queue.queue_id not in self.refused]
        return Reply(body=encode_body(LockBatchReply(lock_ok_mq_set=granted), R_4_9_7))

    def _unlock(self, call):
        return Reply()


NORMAL = {
    RequestCode.PULL_MESSAGE: PulledBroker._pull,
    RequestCode.LITE_PULL_MESSAGE: PulledBroker._pull,
    RequestCode.GET_MIN_OFFSET: PulledBroker._min_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: PulledBroker._query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: PulledBroker._update_offset,
    RequestCode.GET_MAX_OFFSET: PulledBroker._max_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: PulledBroker._search_offset,
    RequestCode.CONSUMER_SEND_MSG_BACK: PulledBroker._send_back,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: PulledBroker._list,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: PulledBroker._connections,
    RequestCode.LOCK_BATCH_MQ: PulledBroker._lock,
    RequestCode.UNLOCK_BATCH_MQ: PulledBroker._unlock,
}


def a_queue(number=0, topic="T") -> MessageQueue:
    return MessageQueue(topic, "broker-a", number)

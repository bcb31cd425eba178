"""Looking messages up for tools: by log position, by key, and by the entries of a queue.

Answers VIEW_MESSAGE_BY_ID, QUERY_MESSAGE and QUERY_CONSUME_QUEUE in every release.  A search by
key reads the log in steps; other requests are answered between them.  It compares hashes, as
upstream's index does, so some records have another key; tools discard them.  It compares times in
milliseconds, where the index has whole seconds, and finds neither messages of a deleted topic
nor, in a very long log, the oldest ones: then its refusal names the limit.
Entries of a queue are never extended ones (``enableConsumeQueueExt``), so that a group's filter is
shown and not evaluated.

Upstream: QueryMessageProcessor, AdminBrokerProcessor.queryConsumeQueue.
"""

from __future__ import annotations

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.store.reading import KeySearch
from rocketmq_emulator.broker.tables.checks import NOT_SET
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol.bodies.body import encode_body, encode_config_file
from rocketmq_emulator.protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueReply
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
from rocketmq_emulator.protocol.requests.admin import QueryConsumeQueueRequest
from rocketmq_emulator.protocol.requests.pulling import (
    QueryMessageReply,
    QueryMessageRequest,
    ViewMessageRequest,
)
from rocketmq_emulator.settings.releases import Release

FOUND_MAX = 64  # MessageStoreConfig.maxMsgsNumBatch
FOUND_BY_UNIQUE_KEY_MAX = 32  # MessageStoreConfig.defaultQueryMaxNum
ENTRIES_MAX = 2_000  # ours: of one answer, so that other requests need not wait


class QueryMessageProcessor:
    """Stored records, and entries of queues, for tools."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def view(self, call: Call[ViewMessageRequest]) -> Result:
        """The record at a position of the commit log, as it is stored."""
        data = self._broker.store.record_at(call.request.offset)
        if data is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {call.request.offset}",
            )
        return Reply(body=bytes(data))

    def query(self, call: Call[QueryMessageRequest]) -> Result:
        """The records with a key, the oldest first; if there are too many, the newest ones."""
        request = call.request
        if request.max_num < 0:
            raise BadFields(f"maxNum = {request.max_num}")
        wanted = FOUND_BY_UNIQUE_KEY_MAX if request.unique_key_query else request.max_num
        search = self._broker.store.search_by_key(
            request.topic,
            request.key,
            min(wanted, FOUND_MAX),
            begin_ms=request.begin_timestamp,
            end_ms=request.end_timestamp,
        )
        return self._run_slice(search, call.now_ms)

    def _run_slice(self, search: KeySearch, now_ms: int) -> Result:
        if search.run_step():
            return self._found(search)
        # A bell that is never rung: the search continues at the end of the turn.
        return Wait(object(), now_ms, lambda now_ms, _expired: self._run_slice(search, now_ms))

    def _found(self, search: KeySearch) -> Reply:
        if not search.found:
            remark = "can not find message, maybe time range not correct"
            if search.is_limit_reached:
                remark += f"; only the newest {search.examined} of the topic were searched"
            nothing = QueryMessageReply(
                index_last_update_timestamp=0, index_last_update_phyoffset=0
            )
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, nothing)
        newest = self._broker.store.newest()
        assert newest is not None, "the found records are in the log"
        header = QueryMessageReply(
            index_last_update_timestamp=newest.store_ms,
            index_last_update_phyoffset=newest.position,
        )
        return Reply(header, b"".join(reversed(search.found)))

    def consume_queue(self, call: Call[QueryConsumeQueueRequest]) -> Result:
        """Entries of a queue from an index on: position, size and tag's hash of each message."""
        request, broker = call.request, self._broker
        queue = broker.store.queue(request.topic, request.queue_id)
        where = f"{request.queue_id}@{request.topic}"
        if queue is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{where} is not exist!")
        first, end = queue.min_offset, queue.max_offset
        if not first <= request.index < end:
            return Reply(remark=f"Index {request.index} of {where} is not exist!")
        start = request.index - first
        stop = start + min(max(request.count, 0), ENTRIES_MAX)
        columns = (queue.positions, queue.sizes, queue.codes)
        entries = zip(*(column[start:stop] for column in columns), strict=True)
        subscription, filter_data = self._filter(request.consumer_group, request.topic)
        body = QueryConsumeQueueReply(
            subscription_data=subscription,
            filter_data=filter_data,
            queue_data=[
                ConsumeQueueData(physic_offset=position, physic_size=size, tags_code=code)
                for position, size, code in entries
            ],
            max_queue_index=end,
            min_queue_index=first,
        )
        return Reply(remark=NOT_SET, body=encode_body(body, broker.release))

    def _filter(self, group: str | None, topic: str) -> tuple[SubscriptionData | None, str | None]:
        """The group's subscription, and its filter as a text: JSON, or why there is none."""
        if group is None:
            return None, None
        broker = self._broker
        online = broker.clients.group(group)
        found = online.subscription_table.get(topic) if online is not None else None
        if found is None:
            return None, f"{group}@{topic} is not online!"
        kept = broker.filters.get(topic, group)
        return found, _pretty(kept and kept.body(), broker.release)


def _pretty(value: object, release: Release) -> str:
    """Upstream: JSON.toJSONString(value, true)."""
    return encode_config_file(value, release).decode()

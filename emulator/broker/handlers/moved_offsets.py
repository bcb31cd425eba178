"""A message for each pull that was sent to another offset, in a topic of the system (4.9).

Who looks into OFFSET_MOVED_EVENT sees which groups began to read somewhere else than they
asked for, and how far away.  5.x has the topic, and stores nothing there.

Upstream: PullMessageProcessor.generateOffsetMovedEvent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from emulator.broker.store.appender import MessageToStore, PutRefused
from emulator.releases import LAST_PROPERTY_OPEN
from protocol.bodies.body import encode_body
from protocol.bodies.offsets import OffsetMovedEvent
from protocol.hosts import host_bytes
from protocol.names import OFFSET_MOVED_EVENT
from protocol.properties import DELAY, KEYS, TAGS, properties_text
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from emulator.broker.broker import Broker
    from protocol.requests.pulling import PullMessageRequest


def store_moved_offset(
    broker: Broker, request: PullMessageRequest, offset: int, now_ms: int
) -> None:
    """The answer to *request* is *offset* instead; where there is no room, nothing is stored."""
    group = request.consumer_group
    event = OffsetMovedEvent(
        consumer_group=group,
        message_queue=MessageQueue(request.topic, broker.config.name, request.queue_id),
        offset_request=request.queue_offset,
        offset_new=offset,
    )
    pairs = ((KEYS, group), (DELAY, "0"), (TAGS, group))  # in the order of a Java map
    message = MessageToStore(
        topic=OFFSET_MOVED_EVENT,
        queue_id=0,
        body=encode_body(event, broker.release),
        properties=properties_text(pairs, trailing=not LAST_PROPERTY_OPEN.holds(broker.release)),
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=host_bytes(broker.address),
    )
    with suppress(PutRefused):  # the store has noted why
        broker.store.put(message, now_ms)

"""What a message becomes on its way into the log: one chain of transforms, in one place.

A transform takes a message and gives back the same one or another: for a different topic,
with different properties.  The chain is applied to what clients send and send back, and not
to what the broker itself puts (a delayed message that is delivered).  Batches may be neither
delayed nor prepared: the transforms for batches change only what all members share (a time of
delivery).  A transform may raise ``PutRefused``, ``Refusal`` or ``BadFields``, and then nothing
is stored.

A prepared message of a transaction will be one more transform, before the delays.

Upstream: PutMessageHook (5.x), AbstractSendMessageProcessor.handleRetryAndDLQ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from emulator.broker.store.appender import MessageToStore
from emulator.broker.store.consume_queue import NOT_INDEXED
from protocol.delay_levels import DelayLevels, queue_of_level
from protocol.fields import BadFields
from protocol.names import RETRY_GROUP_TOPIC_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC, dlq_topic
from protocol.properties import (
    DELAY,
    NAME_END,
    PAIR_END,
    REAL_QID,
    REAL_TOPIC,
    property_of,
    with_property,
    without_property,
)

if TYPE_CHECKING:
    from emulator.broker.store.appender import PutResult
    from emulator.broker.store.store import Store

_DELAYED = DELAY + NAME_END
_LEVEL = re.compile(r"[+-]?\d{1,9}")
PutTransform: TypeAlias = Callable[[MessageToStore, int], MessageToStore]  # and the time, in ms


def _no_task() -> None:
    """Without scheduled tasks no delayed message is delivered."""


class PutChain:
    """Puts into *store*, after *transforms*, in their order; batches after *of_batches* only.

    Set ``on_delayed`` to learn that a message waits for its delay to pass, ``on_timed`` that
    one waits for its time to come.
    """

    def __init__(
        self,
        store: Store,
        transforms: Sequence[PutTransform],
        of_batches: Sequence[PutTransform] = (),
    ) -> None:
        self._store = store
        self._transforms = transforms
        self._of_batches = of_batches
        self.on_delayed: Callable[[], object] = _no_task
        self.on_timed: Callable[[], object] = _no_task

    def put(self, message: MessageToStore, now_ms: int) -> PutResult:
        """Store what the message becomes; the result says where."""
        for transform in self._transforms:
            message = transform(message, now_ms)
        put = self._store.put(message, now_ms)
        if message.topic == SCHEDULE_TOPIC:
            self.on_delayed()
        elif message.topic == TIMER_TOPIC:
            put.timer_text = message.properties
            self.on_timed()
        return put

    def shared(self, message: MessageToStore, now_ms: int) -> MessageToStore:
        """What all members of a batch share, as they are to be stored."""
        for transform in self._of_batches:
            message = transform(message, now_ms)
        return message

    def put_all(self, messages: Sequence[MessageToStore], now_ms: int) -> list[PutResult]:
        """Store the members of a batch, or none of them; the first result has ``timer_text``."""
        puts = self._store.put_all(messages, now_ms)
        if messages[0].topic == TIMER_TOPIC:
            puts[0].timer_text = messages[0].properties
            self.on_timed()
        return puts


def dead_letters(make_topic: Callable[[str, int], object], *, may_wait: bool) -> PutTransform:
    """The transform of what a consumer sends to its retry topic once too often.

    It goes to the group's dead letters, a topic that *make_topic* makes if need be; unless it
    *may_wait* there, its delay is removed.
    """

    def transform(message: MessageToStore, now_ms: int) -> MessageToStore:
        limit = message.retries_max
        if limit is None or message.reconsume_times <= limit:
            return message
        topic = dlq_topic(message.topic[len(RETRY_GROUP_TOPIC_PREFIX) :])
        make_topic(topic, now_ms)
        properties = message.properties
        if not may_wait:
            properties = without_property(properties, DELAY)
        return msgspec.structs.replace(message, topic=topic, queue_id=0, properties=properties)

    return transform


def put_aside(levels: DelayLevels, check: Callable[[MessageToStore], object]) -> PutTransform:
    """The transform of what asks for a delay: it waits in the schedule topic.

    What could not be delivered then is refused now, by *check*, which raises ``PutRefused``.
    Upstream: HookUtils.transformDelayLevelMessage, CommitLog.asyncPutMessage (4.x).
    """

    def transform(message: MessageToStore, _now_ms: int) -> MessageToStore:
        if _DELAYED not in message.properties:
            return message
        level = levels.clamp(delay_level(message.properties))
        if level <= 0 or message.sys_flag & NOT_INDEXED:
            return message
        check(message)
        text = message.properties
        marks = {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)}
        for name, value in marks.items():
            trailing = text.endswith(PAIR_END)
            text = with_property(without_property(text, name), name, value, trailing=trailing)
        return msgspec.structs.replace(
            message, topic=SCHEDULE_TOPIC, queue_id=queue_of_level(level), properties=text
        )

    return transform


def delay_level(properties: str) -> int:
    """The level a sender asks for, 0 without one.  Raises ``BadFields`` for what is no number.

    Upstream fails on such a text as well: Message.getDelayTimeLevel.
    """
    if _DELAYED not in properties:
        return 0
    text = property_of(properties, DELAY) or "0"
    if not _LEVEL.fullmatch(text):
        raise BadFields(f"a delay level is a number, not {text!r:.50}")
    return int(text)

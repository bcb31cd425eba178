"""The transforms of a message before it is stored: dead letters, half messages, delays.

A transform takes a message and returns the same or another one, with another topic or other
properties.  Only messages that clients send and send back go through the chain, not those that
the broker stores itself.  For batches only the delivery time is handled.  A transform may raise
``PutRefused``, ``Refusal`` or ``BadFields``: then nothing is stored.
A half message with a delay is put aside twice, as upstream does: when the delay has passed, its
topic is the half topic, and it is dropped.  The clients of RocketMQ remove such a delay.
Three properties can set a delivery time (5.x): the first present one counts, and a delay level
overrides all.  The time is rounded down to a slot, and a time at the start of a slot to the slot
before: a slot is delivered when it is over, so no message is early and none more than a slot late.

Upstream: PutMessageHook (5.x), AbstractSendMessageProcessor.handleRetryAndDLQ,
HookUtils.handleScheduleMessage, checkIfTimerMessage, transformTimerMessage,
TransactionalMessageBridge.parseHalfMessageInner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from rocketmq_emulator.broker.store.consume_queue import NOT_INDEXED
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import TRANSACTION_ROLLBACK
from rocketmq_emulator.protocol.messages.delay_levels import DelayLevels, queue_of_level
from rocketmq_emulator.protocol.messages.names import (
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    dlq_topic,
)
from rocketmq_emulator.protocol.messages.properties import (
    DELAY,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRANSACTION_ID,
    UNIQ_KEY,
    WAIT,
    property_of,
    with_property,
    without_property,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.appender import PutResult
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.settings.config import BrokerConfig


_DELAYED = DELAY + NAME_VALUE_SEPARATOR
_LEVEL = re.compile(r"[+-]?\d{1,9}")
PutTransform: TypeAlias = Callable[[MessageToStore, int], MessageToStore]  # the int is now_ms


def _no_task() -> None:
    """The default of ``on_delayed`` and ``on_timed``: no task delivers the message."""


def _no_transactions(_message: MessageToStore, _put: PutResult, _now_ms: int) -> None:
    """The default of ``on_half``."""


class PutChain:
    """Puts into *store* after *transforms*, in their order; batches after *of_batches* only.

    ``on_delayed`` is called when a message was stored in the schedule topic, ``on_timed`` when
    one was stored in the timer topic, ``on_half`` with a message that was stored in the half
    topic, with its place and the time.
    """

    def __init__(
        self,
        store: Store,
        transforms: Sequence[PutTransform],
        of_batches: Sequence[PutTransform] = (),
    ) -> None:
        self._store = store
        self._guards: tuple[PutTransform, ...] = ()
        self._transforms = tuple(transforms)
        self._of_batches = tuple(of_batches)
        self.on_delayed: Callable[[], object] = _no_task
        self.on_timed: Callable[[], object] = _no_task
        self.on_half: Callable[[MessageToStore, PutResult, int], object] = _no_transactions

    def put(self, message: MessageToStore, now_ms: int) -> PutResult:
        """Transform and store the message; returns its place."""
        for transform in self._transforms:
            message = transform(message, now_ms)
        put = self._store.put(message, now_ms)
        if message.topic == SCHEDULE_TOPIC:
            self.on_delayed()
        elif message.topic == TIMER_TOPIC:
            put.timer_text = message.properties
            self.on_timed()
        elif message.topic == TRANS_HALF_TOPIC:
            self.on_half(message, put, now_ms)
        return put

    def confirmed(self, topic: str) -> None:
        """A message of *topic* got into its queue long after it was stored: plan it now."""
        if topic == SCHEDULE_TOPIC:
            self.on_delayed()
        elif topic == TIMER_TOPIC:
            self.on_timed()

    def guard(self, first: PutTransform | None) -> None:
        """Call *first* before all other transforms, of batches too; None: only those."""
        before, self._guards = len(self._guards), () if first is None else (first,)
        self._transforms = self._guards + self._transforms[before:]
        self._of_batches = self._guards + self._of_batches[before:]

    def shared(self, message: MessageToStore, now_ms: int) -> MessageToStore:
        """Transform *message*, which has the fields that all members of a batch share."""
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


def waits_for_safety(properties: str) -> bool:
    """Whether the WAIT property is not ``false``.  Upstream: Message.isWaitStoreMsgOK."""
    waits = property_of(properties, WAIT)
    return waits is None or waits.lower() == "true"


def needs_replicas(message: MessageToStore) -> bool:
    """Whether too few slaves refuse *message*.  Upstream: CommitLog.needHandleHA."""
    return not message.never_waits and waits_for_safety(message.properties)


def dead_letters(make_topic: Callable[[str, int], object], *, may_wait: bool) -> PutTransform:
    """The transform of a message in a retry topic that has exceeded its retries.

    It moves to the group's dead letter topic, which *make_topic* creates if it is missing;
    unless *may_wait*, its delay is removed.
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


def prepare_half(*, has_transaction_id: bool) -> PutTransform:
    """The transform of a half message: it is stored in the half topic, where nobody reads it.

    Upstream: TransactionalMessageBridge.parseHalfMessageInner.
    """

    def transform(message: MessageToStore, _now_ms: int) -> MessageToStore:
        if not message.is_half:
            return message
        marks = {REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)}
        key = property_of(message.properties, UNIQ_KEY)
        if has_transaction_id and key is not None:
            marks[TRANSACTION_ID] = key
        return msgspec.structs.replace(
            message,
            topic=TRANS_HALF_TOPIC,
            queue_id=0,
            sys_flag=message.sys_flag & ~TRANSACTION_ROLLBACK,  # both bits of its type
            properties=with_properties(message.properties, marks),
        )

    return transform


def set_delay_level(
    levels: DelayLevels, check: Callable[[MessageToStore], object]
) -> PutTransform:
    """The transform of a message with a delay level: it is stored in the schedule topic.

    *check* raises ``PutRefused`` for a message whose delivery would fail later.
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
            trailing = text.endswith(PROPERTY_SEPARATOR)
            text = with_property(without_property(text, name), name, value, trailing=trailing)
        return msgspec.structs.replace(
            message, topic=SCHEDULE_TOPIC, queue_id=queue_of_level(level), properties=text
        )

    return transform


def delay_level(properties: str) -> int:
    """The message's delay level, 0 without one.  Raises ``BadFields`` if it is not a number.

    Upstream fails on such a text as well: Message.getDelayTimeLevel.
    """
    if _DELAYED not in properties:
        return 0
    text = property_of(properties, DELAY) or "0"
    if not _LEVEL.fullmatch(text):
        raise BadFields(f"a delay level is a number, not {text!r:.50}")
    return int(text)


# Delivery times -----------------------------------------------------------------------


_TIMER_PREFIX = "TIMER_"
_TIMER_PROPERTIES = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
_LONG = re.compile(r"[+-]?[0-9]{1,100}")
_LONG_MAX = 2**63 - 1


class TimerSlots(Protocol):
    """The part of the timer wheel that the transform needs."""

    def is_congested(self, out_ms: int) -> bool:
        """Whether the slot of that time takes no more messages."""


def set_timer(
    config: BrokerConfig,
    wheel: TimerSlots | None,
    check: Callable[[MessageToStore], object],
) -> PutTransform:
    """The transform of a message with a delivery time: it is stored in the timer topic.

    It raises ``PutRefused`` if the time is not a number or too far away, if the slot of the
    *wheel* is congested, if there is no wheel, or if *check* refuses the message.
    """

    def transform(message: MessageToStore, now_ms: int) -> MessageToStore:
        text = message.properties
        if _TIMER_PREFIX not in text or message.sys_flag & NOT_INDEXED:
            return message
        if delay_level(text) > 0:
            return _changed(message, without_properties(text, _TIMER_PROPERTIES))
        asked = next(
            (name for name in _TIMER_PROPERTIES if property_of(text, name) is not None), None
        )
        if asked is None or _is_put_aside(message):
            return message
        if wheel is None:
            raise _not_enabled()
        out_ms = _out_ms(text, asked, now_ms, config)
        if out_ms is None:
            return message
        if wheel.is_congested(out_ms):
            raise _congested(config)
        check(message)
        return _to_timer_topic(message, out_ms)

    return transform


def _is_put_aside(message: MessageToStore) -> bool:
    """Whether the message is or was in the timer topic."""
    return (
        message.topic == TIMER_TOPIC or property_of(message.properties, TIMER_OUT_MS) is not None
    )


def _out_ms(text: str, asked: str, now_ms: int, config: BrokerConfig) -> int | None:
    """The slot of the delivery time; None if that is past.  Raises ``PutRefused``."""
    deliver_ms = _deliver_ms(text, asked, now_ms)
    if deliver_ms is None or deliver_ms - now_ms > config.timer_delay_s_max * 1_000:
        raise _illegal(config)
    if deliver_ms > now_ms:
        return slot_before(deliver_ms, config.timer_precision_ms)
    if property_of(text, TIMER_DEL_UNIQKEY) is not None:
        raise _illegal(config)
    return None


def slot_before(deliver_ms: int, precision_ms: int) -> int:
    """The slot that ends at *deliver_ms*, or less than a slot later."""
    return (deliver_ms - 1) // precision_ms * precision_ms


def java_long(text: str) -> int | None:
    """The number as ``Long.parseLong`` reads it; None if that fails."""
    if not _LONG.fullmatch(text):
        return None
    number = int(text)
    return number if -_LONG_MAX - 1 <= number <= _LONG_MAX else None


def with_properties(text: str, marks: dict[str, str]) -> str:
    """The property block with the values of *marks*, which replace earlier ones."""
    for name, value in marks.items():
        trailing = text.endswith(PROPERTY_SEPARATOR)
        text = with_property(without_property(text, name), name, value, trailing=trailing)
    return text


def without_properties(text: str, names: tuple[str, ...]) -> str:
    """The property block without the properties *names*."""
    for name in names:
        text = without_property(text, name)
    return text


def _deliver_ms(text: str, asked: str, now_ms: int) -> int | None:
    """The delivery time by the property *asked*; None if it is not a number."""
    number = java_long(property_of(text, asked) or "")
    if number is None or asked == TIMER_DELIVER_MS:
        return number
    return _wrapped(now_ms + (number * 1_000 if asked == TIMER_DELAY_SEC else number))


def _to_timer_topic(message: MessageToStore, out_ms: int) -> MessageToStore:
    marks = {
        TIMER_OUT_MS: str(out_ms),
        REAL_TOPIC: message.topic,
        REAL_QID: str(message.queue_id),
    }
    text = with_properties(message.properties, marks)
    return msgspec.structs.replace(message, topic=TIMER_TOPIC, queue_id=0, properties=text)


def _changed(message: MessageToStore, text: str) -> MessageToStore:
    if text == message.properties:
        return message
    return msgspec.structs.replace(message, properties=text)


def _wrapped(number: int) -> int:
    """*number* as a Java ``long``, which overflows: a huge delay gives a past time."""
    return (number + _LONG_MAX + 1) % 2**64 - _LONG_MAX - 1


def _not_enabled() -> PutRefused:
    return PutRefused(
        PutStatus.WHEEL_TIMER_NOT_ENABLE,
        "accurate timer message is not enabled, timerWheelEnable is false",
    )


def _illegal(config: BrokerConfig) -> PutRefused:
    delay_ms_max = config.timer_delay_s_max * 1_000
    return PutRefused(
        PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
        f"timer message illegal, the delay time should not be bigger than the max delay "
        f"{delay_ms_max}ms; or if set del msg, the delay time should be bigger than the "
        f"current time",
    )


def _congested(config: BrokerConfig) -> PutRefused:
    few, many = config.timer_slot_messages_max, config.timer_slot_messages_max * 2
    return PutRefused(
        PutStatus.WHEEL_TIMER_FLOW_CONTROL,
        f"timer message is under flow control, max num limit is {many} or the current value is "
        f"greater than {few} and less than {many}, trigger random flow control",
    )

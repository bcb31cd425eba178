"""The put transform of messages that ask for a time of delivery (5.x).

Three properties ask for it; the first of them that a message has counts.  The time is rounded
down to a slot, a whole slot earlier if it begins one: a slot is delivered when it is over,
so no message comes early and none more than a slot late.  A delay level wins over a time.

Upstream: HookUtils.handleScheduleMessage, checkIfTimerMessage, transformTimerMessage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from emulator.broker.store.consume_queue import NOT_INDEXED
from emulator.broker.store.put_chain import delay_level
from protocol.names import TIMER_TOPIC
from protocol.properties import (
    PAIR_END,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    property_of,
    with_property,
    without_property,
)

if TYPE_CHECKING:
    from emulator.broker.store.put_chain import PutTransform
    from emulator.config import BrokerConfig

_CLUE = "TIMER_"
_ASKING = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
_LONG = re.compile(r"[+-]?[0-9]{1,100}")
_LONG_MAX = 2**63 - 1


class TimerSlots(Protocol):
    """What the transform asks of the timer wheel."""

    def is_congested(self, out_ms: int) -> bool:
        """Whether the slot of that time takes no more messages."""


def set_timer(
    config: BrokerConfig,
    wheel: TimerSlots | None,
    check: Callable[[MessageToStore], object],
) -> PutTransform:
    """The transform: such a message waits in the timer topic.

    It raises ``PutRefused`` for a time that is no number or too far away, for a congested slot
    of the *wheel*, where there is no wheel, and for what *check* refuses.
    """

    def transform(message: MessageToStore, now_ms: int) -> MessageToStore:
        text = message.properties
        if _CLUE not in text or message.sys_flag & NOT_INDEXED:
            return message
        if delay_level(text) > 0:
            return _changed(message, without_properties(text, _ASKING))
        asked = next((name for name in _ASKING if property_of(text, name) is not None), None)
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
        return _put_aside(message, out_ms)

    return transform


def _is_put_aside(message: MessageToStore) -> bool:
    """Whether it waits, or has waited, already."""
    return (
        message.topic == TIMER_TOPIC or property_of(message.properties, TIMER_OUT_MS) is not None
    )


def _out_ms(text: str, asked: str, now_ms: int, config: BrokerConfig) -> int | None:
    """The slot to wait for; None if its time has come.  Raises ``PutRefused``."""
    deliver_ms = _deliver_ms(text, asked, now_ms)
    if deliver_ms is None or deliver_ms - now_ms > config.timer_delay_s_max * 1_000:
        raise _illegal(config)
    if deliver_ms > now_ms:
        return slot_before(deliver_ms, config.timer_precision_ms)
    if property_of(text, TIMER_DEL_UNIQKEY) is not None:
        raise _illegal(config)
    return None


def slot_before(deliver_ms: int, precision_ms: int) -> int:
    """The slot that is over at *deliver_ms* or less than a slot later."""
    return (deliver_ms - 1) // precision_ms * precision_ms


def java_long(text: str) -> int | None:
    """``Long.parseLong``; None where that fails."""
    if not _LONG.fullmatch(text):
        return None
    number = int(text)
    return number if -_LONG_MAX - 1 <= number <= _LONG_MAX else None


def with_marks(text: str, marks: dict[str, str]) -> str:
    """The property block with these values in place of any that were there."""
    for name, value in marks.items():
        trailing = text.endswith(PAIR_END)
        text = with_property(without_property(text, name), name, value, trailing=trailing)
    return text


def without_properties(text: str, names: tuple[str, ...]) -> str:
    """The property block without these."""
    for name in names:
        text = without_property(text, name)
    return text


def _deliver_ms(text: str, asked: str, now_ms: int) -> int | None:
    """The time that the property *asked* means; None if it is no number."""
    number = java_long(property_of(text, asked) or "")
    if number is None or asked == TIMER_DELIVER_MS:
        return number
    return _wrapped(now_ms + (number * 1_000 if asked == TIMER_DELAY_SEC else number))


def _put_aside(message: MessageToStore, out_ms: int) -> MessageToStore:
    marks = {
        TIMER_OUT_MS: str(out_ms),
        REAL_TOPIC: message.topic,
        REAL_QID: str(message.queue_id),
    }
    text = with_marks(message.properties, marks)
    return msgspec.structs.replace(message, topic=TIMER_TOPIC, queue_id=0, properties=text)


def _changed(message: MessageToStore, text: str) -> MessageToStore:
    if text == message.properties:
        return message
    return msgspec.structs.replace(message, properties=text)


def _wrapped(number: int) -> int:
    """As a Java ``long`` overflows: a delay beyond it is in the past."""
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

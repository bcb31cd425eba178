"""What an acting master may not store, and sends to another broker: the message, and its outcome.

The services decide what must be stored; a slave's store refuses it.  With ``remote_escape`` they
give it to an ``Escape`` instead.  The outcome comes later, so a service goes on then.

Upstream: EscapeBridge, TransactionalMessageUtil.buildTransactionalMessageFromHalfMessage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from rocketmq_emulator.broker.store.appender import MessageToStore
from rocketmq_emulator.protocol.flags import TRANSACTION_PREPARED
from rocketmq_emulator.protocol.messages.properties import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRAN_MSG,
    TRAN_PREPARED_QUEUE_OFFSET,
    WAIT,
    decode_properties,
    properties_text,
)

OnEscaped: TypeAlias = Callable[[str, int], object]  # why it failed, or ""; and the time
Escape: TypeAlias = Callable[[MessageToStore, OnEscaped], object]
NO_ESCAPE = "enableRemoteEscape is off"


def no_escape(_message: MessageToStore, on_done: OnEscaped) -> None:
    """An ``Escape`` that fails at once: the setting is off.  To be called in a pass only."""
    on_done(NO_ESCAPE, 0)


def of_delay_level(message: MessageToStore) -> MessageToStore:
    """*message* without its delay, else the other broker would delay it again.

    Upstream: ScheduleMessageService.messageTimeUp.
    """
    return _with(message, without=(DELAY, TIMER_DELIVER_MS, TIMER_DELAY_SEC))


def of_timer(message: MessageToStore) -> MessageToStore:
    """*message*, whose due time has passed, or which waits on in the timer topic there."""
    return _with(message)


def half_again(message: MessageToStore) -> MessageToStore:
    """A stored half message, as its producer sent it: to its real topic, as a half message."""
    properties = decode_properties(message.properties)
    queue_id = properties.get(REAL_QID, "")
    whole = msgspec.structs.replace(
        message,
        topic=properties.get(REAL_TOPIC, ""),
        queue_id=int(queue_id) if queue_id.isdecimal() and len(queue_id) <= 10 else 0,
        sys_flag=message.sys_flag | TRANSACTION_PREPARED,
        flag=0,
        reconsume_times=0,
    )
    return _with(whole, {TRAN_MSG: "true"}, without=(TRAN_PREPARED_QUEUE_OFFSET, REAL_QID))


def _with(
    message: MessageToStore, added: dict[str, str] | None = None, without: tuple[str, ...] = ()
) -> MessageToStore:
    properties = decode_properties(message.properties)
    for name in without:
        properties.pop(name, None)
    properties.update(added or {})
    properties[WAIT] = "false"
    return msgspec.structs.replace(message, properties=properties_text(properties, trailing=True))

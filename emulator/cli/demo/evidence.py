"""What the demo's processes say: their journals, as far as the demo reads them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from emulator.facts import (
    MessageConsumed,
    MessageSent,
    NodeStarted,
    QueuesClaimed,
    QueuesReleased,
    SendFailed,
)

Evidence: TypeAlias = (
    MessageSent | SendFailed | MessageConsumed | QueuesClaimed | QueuesReleased | NodeStarted
)
KINDS = (MessageSent, SendFailed, MessageConsumed, QueuesClaimed, QueuesReleased, NodeStarted)


class Line(msgspec.Struct, frozen=True):
    """One journal entry of a producer or consumer."""

    seq: int
    at_ms: int
    node: str
    fact: Evidence


read_line = msgspec.json.Decoder(Line).decode

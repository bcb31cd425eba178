"""From a sender's draft to the log: what the broker adds, and how a refusal is answered.

Upstream: SendMessageProcessor.handlePutMessageResult, AbstractSendMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from emulator.broker.store.draft import Draft
from emulator.broker.store.put_status import PutRefused, PutStatus
from emulator.net.results import Refusal
from emulator.releases import FIVE
from protocol.codes import ResponseCode
from protocol.properties import (
    CLUSTER,
    MSG_REGION,
    NAME_END,
    PAIR_END,
    TRACE_ON,
    WAIT,
    properties_text,
)
from protocol.property_text import without_property
from protocol.versions import Release

if TYPE_CHECKING:
    from emulator.broker.store.delays import Delays
    from emulator.broker.store.store import PutResult, Store
    from emulator.config import BrokerConfig

LAST_PAIR_ENDED = Release(5, 2, 0)  # MessageDecoder.messageProperties2String ends the last pair
CODES = {
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
}
REMARKS = {
    PutStatus.SERVICE_NOT_AVAILABLE: "service not available now. It may be caused by one of the "
    "following reasons: the broker's disk is full",
    PutStatus.MESSAGE_ILLEGAL: "the message is illegal, maybe msg body or properties length "
    "not matched.",
    PutStatus.PROPERTIES_SIZE_EXCEEDED: "the message is illegal, maybe msg body or properties "
    "length not matched.",
    PutStatus.CREATE_MAPPED_FILE_FAILED: "create mapped file failed, server is busy or broken.",
}


class Messages:
    """Puts, each of which raises ``PutRefused`` when the log will not have it."""

    def __init__(self, store: Store, delays: Delays, config: BrokerConfig) -> None:
        self._store = store
        self._delays = delays
        self._is_five = config.profile >= FIVE
        self.trailing = config.profile >= LAST_PAIR_ENDED
        added = {CLUSTER: config.cluster}
        if self._is_five:
            trace = "true" if config.trace_on else "false"
            added = {MSG_REGION: config.region, **added, TRACE_ON: trace}
        self.on_delayed: Callable[[], object] = _nobody
        self._added = properties_text(added, trailing=self.trailing)

    def put(self, topic: str, queue_id: int, draft: Draft, now_ms: int) -> PutResult:
        return self._store.put(topic, queue_id, draft, now_ms)

    def put_all(
        self, topic: str, queue_id: int, drafts: Sequence[Draft], now_ms: int
    ) -> list[PutResult]:
        return self._store.put_all(topic, queue_id, drafts, now_ms)

    def put_delayable(self, topic: str, queue_id: int, draft: Draft, now_ms: int) -> PutResult:
        """Where it belongs, or where it waits if it asks for a delay."""
        put = self._delays.put(topic, queue_id, draft, now_ms)
        self.on_delayed()
        return put

    def stored_properties(self, text: str) -> str:
        """What is stored of a sender's properties: 4.x forgets WAIT, every release adds some."""
        if not self._is_five and WAIT + NAME_END in text:
            text = without_property(text, WAIT)
        return self.member_properties(text)

    def member_properties(self, text: str) -> str:
        """The same with WAIT: in every release batches and delayed messages keep it."""
        if not text:
            return self._added
        return f"{text}{'' if text.endswith(PAIR_END) else PAIR_END}{self._added}"


def _nobody() -> None:
    """Before the clockwork is there, it will look by itself when it starts."""


def refusal_of(refused: PutRefused) -> Refusal:
    """How a sender hears of it."""
    return Refusal(CODES[refused.status], f"{REMARKS[refused.status]} ({refused.reason})")

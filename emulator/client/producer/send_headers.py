"""The ext fields of sends as text, from templates.

Of the fourteen fields of a SEND_MESSAGE_V2 only two differ between messages that one
producer sends to one queue: when it was born, and its properties.  The others are written once,
by the header itself; the text around the two is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from protocol import java_json
from protocol.command import ext_of

if TYPE_CHECKING:
    from emulator.client.config import ProducerConfig
    from emulator.client.producer.outgoing_message import OutgoingMessage
    from protocol.queues import MessageQueue

TEMPLATES_MAX = 4_096

# A quotation mark inside of a text is escaped: nothing but the two fields looks like this.
_BORN, _PROPERTIES = b'"g":"0"', b'"i":""'

Template: TypeAlias = tuple[bytes, bytes, bytes]  # before the birth time, between, the rest


class SendHeaders:
    """The headers of one producer's sends."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._templates: dict[tuple[object, ...], Template] = {}

    def text(self, outgoing: OutgoingMessage, queue: MessageQueue, born_ms: int) -> msgspec.Raw:
        """The ext fields of a request that sends it into *queue*: those of ``header``."""
        kind = (
            queue,
            outgoing.topic,
            outgoing.flag,
            outgoing.sys_flag,
            outgoing.is_batch,
            outgoing.reconsume_times,
            outgoing.max_reconsume_times,
        )
        template = self._templates.get(kind)
        if template is None:
            template = self._new_template(outgoing, queue)
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            self._templates[kind] = template
        before, between, rest = template
        properties = java_json.write_texts(outgoing.properties)
        return msgspec.Raw(b"".join((before, b"%d" % born_ms, between, properties, rest)))

    def _new_template(self, outgoing: OutgoingMessage, queue: MessageQueue) -> Template:
        bare = msgspec.structs.replace(outgoing, properties="")
        text = bytes(ext_of(bare.header(self._config, queue, born_ms=0)))
        before, _, behind = text.partition(_BORN)
        between, found, rest = behind.partition(_PROPERTIES)
        assert found, "both fields are always written, in this order"
        return before + _BORN[:-2], b'"' + between + _PROPERTIES[:-2], rest

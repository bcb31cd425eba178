"""A message prepared for sending, and the header of its request, for all attempts of a send.

The unique key is set once, so all copies that retries may store have the same key.  Only queue and
birth time differ between attempts.

The ext fields are written as text, from templates: of the fourteen fields of a SEND_MESSAGE_V2
only the birth time and the properties differ between messages that one producer sends to one
queue.  The header encodes the other fields once per queue; the text around the two is cached.

Upstream: DefaultMQProducerImpl.sendKernelImpl, MessageBatch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.errors.call_errors import MessageIllegal
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import ext_of
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.messages import properties
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.compression import compress, compressed_flag
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.names import is_retry_topic
from rocketmq_emulator.protocol.messages.properties import encode_properties, properties_text
from rocketmq_emulator.protocol.messages.validation import (
    client_refuses_body,
    client_refuses_send_to,
)
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.settings.releases import (
    BATCH_HAS_KEY,
    COMPRESSION_TYPED,
    LAST_PROPERTY_OPEN,
    Release,
)

DELAY_LEVELS = parse_delay_levels().level_max  # of the default table

if TYPE_CHECKING:
    from rocketmq_emulator.client.settings.config import ProducerConfig
    from rocketmq_emulator.protocol.messages.message import Message
    from rocketmq_emulator.protocol.queues import MessageQueue


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """A message or a batch in the form of a request.

    ``uniq_keys`` has one key for each message: several for a batch.
    """

    topic: str
    body: bytes
    properties: str
    uniq_keys: tuple[str, ...]
    flag: int = 0
    sys_flag: int = 0
    is_batch: bool = False
    is_reply: bool = False  # to a request
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    @property
    def msg_id(self) -> str:
        """The unique keys, joined by commas.  Upstream: SendResult.msgId."""
        return ",".join(self.uniq_keys)

    def header(
        self, config: ProducerConfig, queue: MessageQueue, born_ms: int
    ) -> SendMessageRequestV2:
        """The header of a request that sends the message into *queue*."""
        return SendMessageRequestV2(
            producer_group=config.group,
            topic=self.topic,
            default_topic=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queues,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=born_ms,
            flag=self.flag,
            properties=self.properties,
            reconsume_times=self.reconsume_times,
            unit_mode=config.unit_mode,
            max_reconsume_times=self.max_reconsume_times,
            batch=self.is_batch,
            bname=queue.broker_name,
        )


def prepare(
    message: Message, config: ProducerConfig, new_key: Callable[[], str]
) -> OutgoingMessage:
    """Check *message*, set its unique key and, if it is large, compress it.

    A message that its application sends again keeps the key of the first send.  Raises
    ``MessageIllegal``.
    """
    check(message, config)
    key = _key(message, new_key)
    body, sys_flag = message.body, 0
    if len(body) >= config.compress_bytes_min:
        body = compress(body, level=config.compress_level)
        sys_flag = compressed_flag(
            sys_flag, flags.ZLIB if config.rules >= COMPRESSION_TYPED else None
        )
    if message.properties.get(properties.TRAN_MSG, "").lower() == "true":
        sys_flag |= flags.TRANSACTION_PREPARED
    text = _text(message.properties, config)
    times, times_max = _reconsume_header_fields(message)
    return OutgoingMessage(
        topic=message.topic,
        body=body,
        properties=text,
        uniq_keys=(key,),
        flag=message.flag,
        sys_flag=sys_flag,
        is_reply=message.properties.get(properties.MSG_TYPE) == properties.REPLY,
        reconsume_times=times or 0,
        max_reconsume_times=times_max,
    )


def prepare_batch(
    messages: Sequence[Message], config: ProducerConfig, new_key: Callable[[], str]
) -> OutgoingMessage:
    """Check the messages of a batch and encode them into one body; never compressed.

    Raises ``MessageIllegal``, also for different topics or WAIT properties, and for a delay.
    """
    _check_batch(messages)
    trailing = _ends_last_pair(config.release)
    parts, keys = [], []
    for message in messages:
        check(message, config)
        keys.append(_key(message, new_key))
        block = encode_properties(message.properties, trailing=trailing)
        parts.append(BatchMessage(message.body, block, message.flag))
    body = encode_batch(parts)
    _check_size(len(body), config)
    shared = {properties.WAIT: _wait(messages[0])}
    if config.rules >= BATCH_HAS_KEY:
        shared[properties.UNIQ_KEY] = new_key()
    return OutgoingMessage(
        topic=messages[0].topic,
        body=body,
        properties=_text(shared, config),
        uniq_keys=tuple(keys),
        is_batch=True,
    )


def check(message: Message, config: ProducerConfig) -> None:
    """Raise ``MessageIllegal`` for a bad topic, no body, or one over ``message_bytes_max``.

    Upstream: Validators.checkMessage.
    """
    if (complaint := client_refuses_send_to(message.topic)) is not None:
        raise MessageIllegal(complaint)
    if config.strict and message.delay_level > DELAY_LEVELS:
        raise MessageIllegal(
            f"delay_level={message.delay_level} is beyond the table of {DELAY_LEVELS} levels: a "
            "broker would deliver the message at the highest one"
        )
    _check_size(len(message.body), config)


def _check_size(size: int, config: ProducerConfig) -> None:
    if (complaint := client_refuses_body(size, config.message_bytes_max)) is not None:
        raise MessageIllegal(complaint, code=ResponseCode.MESSAGE_ILLEGAL)


def _check_batch(messages: Sequence[Message]) -> None:
    if not messages:
        raise MessageIllegal("a batch needs at least one message")
    first = messages[0]
    if is_retry_topic(first.topic):
        raise MessageIllegal("a batch cannot be sent to a retry topic")
    for message in messages:
        if (_number(message.properties.get(properties.DELAY)) or 0) > 0:
            raise MessageIllegal("a message of a batch cannot be delayed")
        if message.topic != first.topic:
            raise MessageIllegal("the messages of a batch must have the same topic")
        if _wait(message) != _wait(first):
            raise MessageIllegal("the messages of a batch must have the same WAIT property")


def _key(message: Message, new_key: Callable[[], str]) -> str:
    if properties.UNIQ_KEY not in message.properties:
        message.properties[properties.UNIQ_KEY] = new_key()
    return message.properties[properties.UNIQ_KEY]


def _wait(message: Message) -> str:
    return message.properties.get(properties.WAIT, "true")


def _reconsume_header_fields(message: Message) -> tuple[int | None, int | None]:
    """Move RECONSUME_TIME and MAX_RECONSUME_TIMES of a retried message into header fields."""
    if not is_retry_topic(message.topic):
        return None, None
    times = message.properties.pop(properties.RECONSUME_TIME, None)
    times_max = message.properties.pop(properties.MAX_RECONSUME_TIMES, None)
    return _number(times), _number(times_max)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        raise MessageIllegal(f"a numeric property has the value {text!r:.50}") from None


def _text(pairs: dict[str, str], config: ProducerConfig) -> str:
    return properties_text(pairs, trailing=_ends_last_pair(config.release))


@functools.cache
def _ends_last_pair(release: str) -> bool:
    return not LAST_PROPERTY_OPEN.holds(Release.parse(release))


# Headers as text, from templates ------------------------------------------------------


TEMPLATES_MAX = 4_096

# Quotation marks inside values are escaped, so only these two fields match.
_BORN, _PROPERTIES = b'"g":"0"', b'"i":""'

Template: TypeAlias = tuple[bytes, bytes, bytes]  # before the birth time, between, the rest


class SendHeaders:
    """Makes the headers of one producer's sends, from templates by queue."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._templates: dict[tuple[object, ...], Template] = {}

    def text(self, outgoing: OutgoingMessage, queue: MessageQueue, born_ms: int) -> msgspec.Raw:
        """The ext fields of ``outgoing.header(…)``, encoded."""
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

r"""A message's properties: a block of text, names and values separated by control characters.

``name \x01 value \x02 name \x01 value`` with or without a last ``\x02`` (releases
differ, every reader accepts both).  Nothing is escaped, so a value may hold ``\x01``
but no name may; a pair without a name or a value is dropped without an error.

Upstream: MessageDecoder.messageProperties2String, string2messageProperties; MessageConst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
PROPERTIES_BYTES_MAX = 32767  # an int16 holds the length

Pairs = Mapping[str, str | None] | Iterable[tuple[str | None, str | None]]

# Set by producers.
KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
UNIQ_KEY = "UNIQ_KEY"
EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
INSTANCE_ID = "INSTANCE_ID"
BUYER_ID = "BUYER_ID"
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"
SHARDING_KEY = "__SHARDINGKEY"
KEY_SEPARATOR = " "

# Transactions.
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"

# Retries, delays, and the real topic and queue of a message.
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

# Set by the consumer for itself, never sent.
CONSUME_START_TIME = "CONSUME_START_TIME"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"

# Added by the broker.
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
CLUSTER = "CLUSTER"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
DUP_INFO = "DUP_INFO"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
POP_CK = "POP_CK"
POP_CK_OFFSET = "POP_CK_OFFSET"
FIRST_POP_TIME = "1ST_POP_TIME"
FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT = "REDIRECT"
BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
CRC32 = "__CRC32#"

# Request and reply.
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
MSG_TYPE = "MSG_TYPE"
ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
REPLY = "reply"  # the value of MSG_TYPE; upstream: MixAll.REPLY_MESSAGE_FLAG

# Delays of any length (5.x).
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
START_DELIVER_TIME = "__STARTDELIVERTIME"
TRACE_CONTEXT = "TRACE_CONTEXT"

# Names that an application may not set (MessageConst.STRING_HASH_SET of 4.9).
RESERVED = frozenset(
    {
        KEYS,
        TAGS,
        WAIT,
        DELAY,
        RETRY_TOPIC,
        REAL_TOPIC,
        REAL_QID,
        TRAN_MSG,
        PGROUP,
        MIN_OFFSET,
        MAX_OFFSET,
        BUYER_ID,
        ORIGIN_MESSAGE_ID,
        TRANSFER_FLAG,
        CORRECTION_FLAG,
        MQ2_FLAG,
        RECONSUME_TIME,
        MSG_REGION,
        TRACE_ON,
        UNIQ_KEY,
        MAX_RECONSUME_TIMES,
        CONSUME_START_TIME,
        INSTANCE_ID,
        CORRELATION_ID,
        REPLY_TO_CLIENT,
        TTL,
        ARRIVE_TIME,
        PUSH_REPLY_TIME,
        CLUSTER,
        MSG_TYPE,
        INNER_MULTI_QUEUE_OFFSET,
    }
)


def properties_text(properties: Pairs, *, trailing: bool) -> str:
    """The block as text, in the order given; *trailing* ends the last pair too.

    A pair without a value is left out.  Releases up to 4.9.0 and from 5.2.0 on end
    the last pair, those between do not.
    """
    pairs = properties.items() if isinstance(properties, Mapping) else properties
    text = PROPERTY_SEPARATOR.join(
        [
            f"{'null' if name is None else name}{NAME_VALUE_SEPARATOR}{value}"
            for name, value in pairs
            if value is not None
        ]
    )
    return text + PROPERTY_SEPARATOR if trailing and text else text


def encode_properties(properties: Pairs, *, trailing: bool) -> bytes:
    """The block as it is stored.  Its length is checked by ``records.encode_record``."""
    return properties_text(properties, trailing=trailing).encode("utf-8", "replace")


def decode_properties(block: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """The pairs of a block; of a name given twice the last counts.  Never fails."""
    text = block if isinstance(block, str) else str(block, "utf-8", "replace")
    found = {}
    for pair in text.split(PROPERTY_SEPARATOR):
        name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            found[name] = value
    return found


def split_keys(keys: str | None) -> list[str]:
    """The business keys of a KEYS property."""
    return keys.split(KEY_SEPARATOR) if keys else []


# Single properties: a broker reads two or three of each message that it stores; decoding
# the whole block for that would cost more than storing it.


def user_properties(text: str) -> tuple[str, ...]:
    """The properties of *text* that an application may have set, as ``name=value``, by name."""
    named = sorted(decode_properties(text).items())
    return tuple(f"{name}={value}" for name, value in named if name not in RESERVED)


def property_of(text: str, name: str) -> str | None:
    """The value of *name*, the last one if it is there twice; None if absent or empty."""
    at = _find(text, name)
    if at < 0:
        return None
    start = at + len(name) + 1
    end = text.find(PROPERTY_SEPARATOR, start)
    return (text[start:] if end < 0 else text[start:end]) or None


def without_property(text: str, name: str) -> str:
    """The block without any pair called *name*."""
    while (at := _find(text, name)) >= 0:
        end = text.find(PROPERTY_SEPARATOR, at)
        text = (
            text[:at].removesuffix(PROPERTY_SEPARATOR) if end < 0 else text[:at] + text[end + 1 :]
        )
    return text


def with_property(text: str, name: str, value: str, *, trailing: bool) -> str:
    """The block with one more pair at its end."""
    between = "" if not text or text.endswith(PROPERTY_SEPARATOR) else PROPERTY_SEPARATOR
    end = PROPERTY_SEPARATOR if trailing else ""
    return f"{text}{between}{name}{NAME_VALUE_SEPARATOR}{value}{end}"


def _find(text: str, name: str) -> int:
    key = name + NAME_VALUE_SEPARATOR
    at = text.rfind(key)
    while at > 0 and text[at - 1] != PROPERTY_SEPARATOR:
        at = text.rfind(key, 0, at)
    return at

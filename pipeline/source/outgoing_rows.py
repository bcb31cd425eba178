"""Rows become messages, and messages batches: what brokers take in one send.

A batch holds messages of one topic, is never compressed, and none of its messages is delayed or
bound to a queue: those are sent alone.  Every row is looked at before the first of its Arrow
batch is sent, so a row that cannot be sent stops the others of it, too.

Upstream: MessageBatch, DefaultMQProducerImpl.sendKernelImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pipeline.source.errors import NotSent
from protocol.batch import BatchMessage, encode_batch
from protocol.properties import (
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    NAME_END,
    PAIR_END,
    PROPERTIES_BYTES_MAX,
    RESERVED,
    SHARDING_KEY,
    TAGS,
    UNIQ_KEY,
    WAIT,
    properties_text,
)
from protocol.validation import MESSAGE_BYTES_MAX, client_refuses_body, client_refuses_send_to

BATCH_BYTES_MAX = 1 << 20  # ours: brokers take MESSAGE_BYTES_MAX, a broker that is away takes all
BATCH_MESSAGES_MAX = 1_000
MORE_THAN_BODY = 200  # bytes of a message in a batch beside body and properties, and to spare
NO_ROW: dict[str, Any] = {}


class OutgoingRow(msgspec.Struct, frozen=True):
    """A message to be: its properties as text."""

    topic: str
    body: bytes
    properties: str
    shard_key: str = ""
    is_delayed: bool = False

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.body) + len(self.properties) + MORE_THAN_BODY


class OutgoingBatch(msgspec.Struct, frozen=True):
    """One send: ``count`` rows, of which a shard key binds to a queue."""

    topic: str
    body: bytes
    properties: str
    count: int
    shard_key: str = ""
    is_batch: bool = False


def rows_of(batch: Any, topic: str, new_key: Callable[[], str]) -> list[OutgoingRow]:
    """The rows of an Arrow batch; *topic* for those without one.  Raises ``NotSent``."""
    found = []
    for number, row in enumerate(batch.to_pylist()):
        try:
            found.append(_outgoing(row, row.get("topic") or topic, new_key))
        except ValueError as error:
            raise NotSent(f"row {number} of {batch.num_rows} cannot be sent: {error}") from None
    return found


def sends_of(rows: list[OutgoingRow]) -> Iterator[OutgoingBatch]:
    """The rows as sends, in their order, as many in one as a broker takes."""
    waiting: list[OutgoingRow] = []
    size = 0
    for row in rows:
        is_alone = bool(row.shard_key) or row.is_delayed
        is_other = bool(waiting) and waiting[0].topic != row.topic
        is_full = size + row.size > BATCH_BYTES_MAX or len(waiting) == BATCH_MESSAGES_MAX
        if waiting and (is_alone or is_other or is_full):
            yield _batch(waiting)
            waiting, size = [], 0
        if is_alone:
            yield OutgoingBatch(row.topic, row.body, row.properties, 1, row.shard_key)
            continue
        waiting.append(row)
        size += row.size
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[OutgoingRow]) -> OutgoingBatch:
    if len(rows) == 1:
        (row,) = rows
        return OutgoingBatch(row.topic, row.body, row.properties, 1)
    body = encode_batch(BatchMessage(row.body, row.properties.encode()) for row in rows)
    shared = properties_text({WAIT: "true"}, trailing=False)
    return OutgoingBatch(rows[0].topic, body, shared, len(rows), is_batch=True)


def _outgoing(row: dict[str, Any], topic: str, new_key: Callable[[], str]) -> OutgoingRow:
    """Raises ``ValueError``."""
    if (complaint := client_refuses_send_to(topic)) is not None:
        raise ValueError(complaint)
    body = row["body"]
    if body is None:
        raise ValueError("its body is null")
    data = body.encode() if isinstance(body, str) else bytes(body)
    if (complaint := client_refuses_body(len(data), MESSAGE_BYTES_MAX - (1 << 16))) is not None:
        raise ValueError(complaint)
    keys, delay, shard = row.get("keys"), row.get("delay_level") or 0, row.get("shard_key") or ""
    if isinstance(keys, list):
        keys = KEY_SEPARATOR.join(filter(None, keys))
    own = dict(row.get("properties") or NO_ROW)
    pairs = {name: value for name, value in own.items() if name not in RESERVED and value}
    # A message that was read brings what the system set for it: that is set anew.
    given = {KEYS: keys, TAGS: row.get("tags"), SHARDING_KEY: shard, DELAY: delay and str(delay)}
    pairs |= {name: value for name, value in given.items() if value}
    pairs |= {UNIQ_KEY: new_key(), WAIT: "true"}
    _check_pairs(pairs)
    text = properties_text(pairs, trailing=False)
    if len(text.encode()) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"its properties are longer than {PROPERTIES_BYTES_MAX} bytes")
    return OutgoingRow(topic, data, text, shard, is_delayed=delay > 0)


def _check_pairs(pairs: dict[str, str]) -> None:
    for name, value in pairs.items():
        if NAME_END in name or PAIR_END in name + value:
            raise ValueError(f"the property {name!r} holds \\x01 or \\x02, which end properties")
    if "||" in pairs.get(TAGS, ""):
        raise ValueError(f"a message has one tag, not {pairs[TAGS]!r}")

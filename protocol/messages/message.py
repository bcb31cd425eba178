"""A message as an application sees it: before it is sent, and when it is consumed.

Tags, keys, delay and the rest are properties: names in one map, with accessors here.

Upstream: Message, MessageExt, MessageDecoder.decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Never

from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.flags import is_compressed, without_compressed
from rocketmq_emulator.protocol.messages import properties as names
from rocketmq_emulator.protocol.messages.compression import (
    BODY_BYTES_MAX,
    BadCompression,
    decompress,
)
from rocketmq_emulator.protocol.messages.message_ids import host_text, offset_msg_id
from rocketmq_emulator.protocol.messages.records import Buffer, StoredMessage, decode_records
from rocketmq_emulator.protocol.messages.validation import suggestion, type_error_text

INT_MIN, INT_MAX, LONG_MAX = -(2**31), 2**31 - 1, 2**63 - 1


class BadProperty(Misuse, ValueError):
    """A property that applications may not set, or an empty one; nothing was set."""


class Message:
    """A message to send.

    *keys* are joined by blanks; *properties* are used unchanged, system properties too.
    A *delay_level* is one of RocketMQ's 18; brokers from 5.0 on can also delay a message by
    *delay_ms*, or until *deliver_at_ms* (milliseconds since 1970).  Raises ``TypeError`` and
    ``ValueError``; the topic's name and the size of the body are checked when it is sent.
    """

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview = b"",
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        *,
        flag: int = 0,
        delay_level: int = 0,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        wait_store_ok: bool = True,
        properties: Mapping[str, str] | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            name = next(iter(unknown))
            hint = MEANT.get(name) or suggestion(name, ARGUMENTS)
            raise TypeError(f"a Message has no {name}={hint}")
        if not isinstance(topic, str):
            raise TypeError(type_error_text("topic", "a str", topic))
        self.topic = topic
        self.body = body if type(body) is bytes else _body(body)
        self.flag = _checked_int(flag, "flag", INT_MIN, INT_MAX)
        self.transaction_id: str | None = None
        self.properties = {} if properties is None else _properties(properties)
        if tags is not None and tags != "":
            self.tags = tags
        if keys is not None and keys != "":
            self.keys = keys
        if delay_level != 0:
            self.delay_level = delay_level
        if delay_ms != 0:
            self.delay_ms = delay_ms
        if deliver_at_ms != 0:
            self.deliver_at_ms = deliver_at_ms
        if names.WAIT not in self.properties:
            self.wait_store_ok = wait_store_ok

    @property
    def tags(self) -> str | None:
        """The message's tag; None without one."""
        return self.properties.get(names.TAGS)

    @tags.setter
    def tags(self, tags: str) -> None:
        if not isinstance(tags, str):
            raise TypeError(type_error_text("tags", "a str", tags))
        if "||" in tags:
            raise ValueError(f"a message has one tag, not {tags!r}: only subscriptions use ||")
        _check_pair("tags", tags)
        self.properties[names.TAGS] = tags

    @property
    def keys(self) -> str | None:
        """The business keys, separated by blanks; set as one text or several."""
        return self.properties.get(names.KEYS)

    @keys.setter
    def keys(self, keys: str | Iterable[str]) -> None:
        text = keys if isinstance(keys, str) else names.KEY_SEPARATOR.join(_texts(keys))
        if text:
            _check_pair("keys", text)
            self.properties[names.KEYS] = text
        else:
            self.properties.pop(names.KEYS, None)

    @property
    def delay_level(self) -> int:
        """1 to 18 for a delayed message, 0 for one that is not."""
        return int(self.properties.get(names.DELAY, "0"))

    @delay_level.setter
    def delay_level(self, level: int) -> None:
        self.properties[names.DELAY] = str(_checked_int(level, "delay_level", most=INT_MAX))

    @property
    def delay_ms(self) -> int:
        """How long a 5.x broker delays it; 0: no delay.  Upstream: setDelayTimeMs."""
        return int(self.properties.get(names.TIMER_DELAY_MS, "0"))

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        self.properties[names.TIMER_DELAY_MS] = str(_checked_int(delay_ms, "delay_ms"))

    @property
    def deliver_at_ms(self) -> int:
        """The wall time before which a 5.x broker does not deliver it; 0: no delay.

        Upstream: setDeliverTimeMs.
        """
        return int(self.properties.get(names.TIMER_DELIVER_MS, "0"))

    @deliver_at_ms.setter
    def deliver_at_ms(self, deliver_at_ms: int) -> None:
        self.properties[names.TIMER_DELIVER_MS] = str(_checked_int(deliver_at_ms, "deliver_at_ms"))

    @property
    def wait_store_ok(self) -> bool:
        """Whether the send waits until the message is flushed and replicated as configured."""
        return self.properties.get(names.WAIT, "true").lower() == "true"

    @wait_store_ok.setter
    def wait_store_ok(self, wait: bool) -> None:
        if not isinstance(wait, bool):
            raise TypeError(type_error_text("wait_store_ok", "a bool", wait))
        self.properties[names.WAIT] = "true" if wait else "false"

    @property
    def uniq_key(self) -> str | None:
        """The id that its producer gave it; None before it is sent."""
        return self.properties.get(names.UNIQ_KEY)

    def put_user_property(self, name: str | None, value: str | None) -> None:
        """Set a property of the application.  Raises ``BadProperty``."""
        if name in names.RESERVED:
            raise BadProperty(f"The Property<{name}> is used by system, input another please")
        if name is None or value is None or not name.strip() or not value.strip():
            raise BadProperty("The name or value of property can not be null or blank string!")
        if names.NAME_VALUE_SEPARATOR in name or names.PROPERTY_SEPARATOR in name + value:
            raise BadProperty("no property may hold \\x02, nor its name \\x01")
        self.properties[name] = value

    def get_user_property(self, name: str) -> str | None:
        """The value of any property; None if it is not set."""
        return self.properties.get(name)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(topic={self.topic!r}, body={len(self.body)} bytes, "
            f"properties={self.properties!r})"
        )


class MessageExt(Message):
    """A consumed message, with its position in queue and log, its times and its hosts.

    Besides the fields of a ``Message``:

    ``broker_name``, ``queue_id``: str and int, its queue
    ``queue_offset``: int, its offset in the queue, from 0
    ``commit_log_offset``: int, its position in the broker's log, in bytes
    ``store_size``: int, bytes of the stored record
    ``born_timestamp``, ``store_timestamp``: int, ms since 1970: sent by the producer's clock,
    stored by the broker's
    ``born_host``, ``store_host``: str, ``host:port`` of the producer's connection, of the broker
    ``reconsume_times``: int, how often its group has failed to consume it, 0 at first
    ``msg_id``, ``offset_msg_id``: str, the producer's id, and that of the store
    ``body_crc``, ``sys_flag``: int, the checksum of the stored body and RocketMQ's bits
    ``transaction_id``: str or None; ``prepared_transaction_offset``: int, of its half message

    Raises ``BadCompression`` when the body does not inflate within *body_bytes_max*.
    Clients from 5.3.2 on clear the compressed bit of the flag when they inflate the body.
    """

    def __init__(
        self,
        stored: StoredMessage,
        broker_name: str = "",
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        clears_compressed: bool = False,
    ) -> None:
        self.topic = stored.topic
        self.body = stored.body
        if is_compressed(stored.sys_flag):
            self.body = decompress(stored.body, stored.sys_flag, body_bytes_max)
        self.flag = stored.flag
        self.properties = stored.property_map()
        self.transaction_id = self.properties.get(names.TRANSACTION_ID)
        self.broker_name = broker_name
        self.queue_id = stored.queue_id
        self.queue_offset = stored.queue_offset
        self.commit_log_offset = stored.position
        self.store_size = stored.size
        self.body_crc = stored.body_crc
        self.sys_flag = stored.sys_flag
        if clears_compressed:
            self.sys_flag = without_compressed(stored.sys_flag)
        self.born_timestamp = stored.born_ms
        self.born_host = host_text(stored.born_host)
        self.store_timestamp = stored.store_ms
        self.store_host = host_text(stored.store_host)
        self.reconsume_times = stored.reconsume_times
        self.prepared_transaction_offset = stored.prepared_offset
        self._store_host = stored.store_host

    @property
    def offset_msg_id(self) -> str:
        """The id from the store: its host, and the position in its log."""
        return offset_msg_id(self._store_host, self.commit_log_offset)

    @property
    def msg_id(self) -> str:
        """The id from the producer if there is one, else the id from the store.

        Upstream: MessageClientExt.getMsgId.
        """
        return self.uniq_key or self.offset_msg_id


# Arguments ----------------------------------------------------------------------------


ARGUMENTS = (  # of a Message
    *("topic", "body", "tags", "keys", "flag"),
    *("delay_level", "delay_ms", "deliver_at_ms", "wait_store_ok", "properties"),
)


MEANT: Mapping[str, str] = {  # by a wrong argument: what the nearest name would leave out
    "delay": "; did you mean delay_level (1 to 18), or delay_ms (brokers from 5.0)?",
}


def _body(body: bytes | bytearray | memoryview) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(type_error_text("body", "bytes", body))
    return bytes(body)


def _checked_int(value: int, name: str, least: int = 0, most: int = LONG_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(type_error_text(name, "an int", value))
    if not least <= value <= most:
        raise ValueError(f"{name} is between {least} and {most}, not {value}")
    return value


def _texts(keys: Iterable[str]) -> list[str]:
    found = list(keys) if isinstance(keys, Iterable) and not isinstance(keys, bytes) else [keys]
    for key in found:
        if not isinstance(key, str):
            raise TypeError(type_error_text("keys", "a str, or several", key))
    return found


def _properties(given: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise TypeError(type_error_text("properties", "a dict of str to str", given))
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(type_error_text("the name of a property", "a str", name))
        if not isinstance(value, str):
            raise TypeError(type_error_text(f"the property {name!r}", "a str", value))
        if not name or names.NAME_VALUE_SEPARATOR in name or names.PROPERTY_SEPARATOR in name:
            raise ValueError(f"a property has a name without \\x01 and \\x02, not {name!r}")
        if not value:
            raise ValueError(f"the property {name!r} is empty: brokers drop it, so leave it out")
        _check_pair(f"the property {name!r}", value)
    return dict(given)


def _check_pair(what: str, value: str) -> None:
    """Raises ``ValueError`` for a value with the character that ends a property."""
    if names.PROPERTY_SEPARATOR in value:
        raise ValueError(f"{what} may not hold \\x02, which ends a property: {value!r}")


# Pulled messages ----------------------------------------------------------------------


def decode_messages(
    data: Buffer,
    broker_name: str = "",
    *,
    magic_matters: bool = True,
    body_bytes_max: int = BODY_BYTES_MAX,
    clears_compressed: bool = False,
) -> list[MessageExt]:
    """The messages of a pull answer; those after the first damaged one are dropped."""
    found = []
    for stored in decode_records(data, magic_matters=magic_matters):
        try:
            message = MessageExt(
                stored,
                broker_name,
                body_bytes_max=body_bytes_max,
                clears_compressed=clears_compressed,
            )
        except BadCompression:
            break
        found.append(message)
    return found

"""The two ids of a message, which look alike.

The *offset id* says where a message lies: store host and position in the commit log.
The *unique key* was made by the sending client: ip, process, loader, time, counter.
Both are upper-case hex of 16 or 28 bytes, and nothing in the text tells them apart.

Upstream: MessageDecoder.createMessageId, decodeMessageId; MessageClientIDSetter.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import NamedTuple

from protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES

V4_ID_CHARS = 32
_HEX = "0123456789ABCDEF"
_KEY_TAIL = Struct(">HiIH")  # pid, class loader's hash, ms since the month began, counter


class BadMessageId(ValueError):
    """A text that is no message id: the asking side is at fault, nothing was looked up."""


def offset_msg_id(store_host: bytes, position: int) -> str:
    """The id by which the broker at *store_host* finds a message again."""
    return (store_host + position.to_bytes(8, "big", signed=True)).hex().upper()


def decode_offset_msg_id(text: str) -> tuple[bytes, int]:
    """Store host and position.  Raises ``BadMessageId`` when the text is too short.

    As lax as upstream: any case, a wrong digit counts as -1, what follows is ignored.
    """
    data = _lax_hex(text)
    host_length = HOST_V4_BYTES if len(text) == V4_ID_CHARS else HOST_V6_BYTES
    if len(data) < host_length + 8:
        raise BadMessageId(f"{text!r} is no message id")
    position = data[host_length : host_length + 8]
    return data[:host_length], int.from_bytes(position, "big", signed=True)


def _lax_hex(text: str) -> bytes:
    digits = [_HEX.find(char) for char in text.upper()]
    pairs = zip(digits[::2], digits[1::2], strict=False)
    return bytes([(high << 4 | low) & 0xFF for high, low in pairs])


class UniqKeyParts(NamedTuple):
    """What tells one unique key from all others."""

    ip: bytes
    pid: int
    loader_hash: int
    ms_in_month: int
    counter: int


def decode_uniq_key(key: str) -> UniqKeyParts:
    """What a unique key was made of.  Raises ``BadMessageId`` when it is too short."""
    data = _lax_hex(key)
    ip_length = 4 if len(key) == V4_ID_CHARS else 16
    if len(data) < ip_length + _KEY_TAIL.size:
        raise BadMessageId(f"{key!r} is no unique key")
    return UniqKeyParts(data[:ip_length], *_KEY_TAIL.unpack_from(data, ip_length))


def uniq_key_born_ms(key: str, now_ms: int) -> int:
    """When the key was made, if that is less than a month ago.  Bounds a search by key.

    Upstream: MessageClientIDSetter.getNearlyTimeFromID.
    """
    ms_in_month = decode_uniq_key(key).ms_in_month
    month = month_start_ms(now_ms)
    if month + ms_in_month >= now_ms:
        month = month_start_ms(month - 1)
    return month + ms_in_month


class UniqKeys:
    """The keys one process gives its messages, no two alike.

    *ip* has 4 or 16 bytes; *loader_hash* tells apart what shares ip and pid.  Times
    count from the start of the month (UTC), which a key made later moves on.
    """

    def __init__(self, ip: bytes, pid: int, loader_hash: int = 0, counter: int = 0) -> None:
        self._fixed = ip.hex().upper()
        self._pid = pid & 0xFFFF
        self._loader_hash = (loader_hash + 2**31 & 0xFFFFFFFF) - 2**31
        self._counter = counter
        self._month_ms = self._next_month_ms = 0

    def make(self, now_ms: int) -> str:
        if now_ms >= self._next_month_ms:
            self._month_ms = month_start_ms(now_ms)
            self._next_month_ms = month_start_ms(self._month_ms + 31 * 86_400_000 + 1)
        elapsed_ms = now_ms - self._month_ms
        tail = _KEY_TAIL.pack(self._pid, self._loader_hash, elapsed_ms, self._counter)
        self._counter = self._counter + 1 & 0xFFFF
        return self._fixed + tail.hex().upper()


def month_start_ms(at_ms: int) -> int:
    """The first moment (UTC) of the month that holds *at_ms*."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)
    first = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp()) * 1000

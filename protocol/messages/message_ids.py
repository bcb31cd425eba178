"""Identifiers of a message: its two ids, its recall handle, and the host that stores it.

The *offset id* is where a message is stored: store host and position in the commit log.
The sending client makes the *unique key*: ip, process, loader, time, counter.  Both are
upper-case hex of 16 or 28 bytes; the text does not show which one it is.  A *recall handle*
is URL-safe base64 of ``v1 <topic> <broker> <time> <unique key>``, with blanks between.

A host is 4 or 16 bytes of ip, then an int32 port, as records carry it.  Its texts are
``10.0.0.1:10911`` or ``[fd00::1]:10911``; names are not looked up here.

Upstream: MessageDecoder.createMessageId, decodeMessageId; MessageClientIDSetter;
RecallMessageHandle (5.3.2).
"""

from __future__ import annotations

import base64
import functools
import re
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import NamedTuple

from rocketmq_emulator.protocol.error_families import Misuse

PORTS = range(1 << 16)  # Upstream: InetSocketAddress
_KEY_MAKER = Struct(">HI")  # pid, class loader's hash


def offset_msg_id(store_host: bytes, position: int) -> str:
    """The id by which the broker at *store_host* finds a message again."""
    return (store_host + position.to_bytes(8, "big", signed=True)).hex().upper()


def position_of(msg_id: str) -> int:
    """The position in the log from an offset message id; its host is not compared.

    Raises ``ValueError`` for a text that is too short, not hexadecimal, or has an invalid port.
    """
    data = bytes.fromhex(msg_id)
    start = 8 if len(msg_id) == 32 else 20  # behind ip and port
    if len(data) < start + 8:
        raise ValueError(f"{len(msg_id)} characters are too few")
    if (port := int.from_bytes(data[start - 4 : start], "big", signed=True)) not in PORTS:
        raise ValueError(f"there is no port {port}")
    return int.from_bytes(data[start : start + 8], "big", signed=True)


class UniqKeys:
    """Makes the unique keys of the messages of one process.

    *ip* has 4 or 16 bytes; *loader_hash* differs for clients that share ip and pid.  Times
    count from the start of a month (UTC); the first key made after its end starts the next.
    """

    def __init__(self, ip: bytes, pid: int, loader_hash: int = 0, counter: int = 0) -> None:
        maker = _KEY_MAKER.pack(pid & 0xFFFF, loader_hash & 0xFFFFFFFF)
        self._fixed = (ip + maker).hex().upper()
        self._counter = counter
        self._month_ms = self._next_month_ms = 0

    def make(self, now_ms: int) -> str:
        """The next key, made at *now_ms*."""
        if now_ms >= self._next_month_ms:
            self._month_ms = month_start_ms(now_ms)
            self._next_month_ms = month_start_ms(self._month_ms + 31 * 86_400_000 + 1)
        elapsed_ms = now_ms - self._month_ms & 0xFFFFFFFF  # a clock may step back
        counter = self._counter
        self._counter = counter + 1 & 0xFFFF
        return f"{self._fixed}{elapsed_ms:08X}{counter:04X}"


def month_start_ms(at_ms: int) -> int:
    """The first moment (UTC) of the month that holds *at_ms*."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)
    first = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp()) * 1000


# Recall handles -----------------------------------------------------------------------


_VERSION = "v1"
_ALPHABET = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_PARTS = 5


class BadHandle(Misuse, ValueError):
    """The text is no recall handle of a known version; the error text is upstream's remark."""


class RecallHandle(NamedTuple):
    """The parts of a handle.  ``deliver_ms`` is not parsed: it may be no number."""

    topic: str
    broker_name: str
    deliver_ms: str
    uniq_key: str

    def encode(self) -> str:
        """The handle's text."""
        return base64.urlsafe_b64encode(" ".join((_VERSION, *self)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Decode the text of a handle.  Raises ``BadHandle``."""
    if not text or not _ALPHABET.fullmatch(text) or ("=" in text and len(text) % 4):
        raise BadHandle("recall handle is invalid")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise BadHandle("recall handle is invalid") from error
    version, *parts = raw.decode("utf-8", "replace").rstrip(" ").split(" ")
    if version != _VERSION or len(parts) < _PARTS - 1:
        raise BadHandle("recall handle is invalid")
    return RecallHandle(*parts[: _PARTS - 1])


# Hosts --------------------------------------------------------------------------------


HOST_V4_BYTES = 8
HOST_V6_BYTES = 20
_PORT_DIGITS_MAX = 9  # what surely fits a Java int
_HOSTS_KEPT_MAX = 4096


@functools.lru_cache(_HOSTS_KEPT_MAX)
def host_bytes(text: str) -> bytes:
    """The bytes of ``ip:port``.  Raises ``ValueError`` for a text that is not an address."""
    ip, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS_MAX):
        raise ValueError(f"an address looks like 10.0.0.1:10911, not {text!r:.100}")
    return ip_address(ip.strip("[]")).packed + int(port).to_bytes(4, "big", signed=True)


@functools.lru_cache(_HOSTS_KEPT_MAX)
def host_text(host: bytes) -> str:
    """The ``ip:port`` of 8 or 20 bytes.  Raises ``ValueError`` for any other length."""
    if len(host) not in (HOST_V4_BYTES, HOST_V6_BYTES):
        raise ValueError(f"an address has 8 or 20 bytes, not {len(host)}")
    ip = ip_address(host[:-4])
    port = int.from_bytes(host[-4:], "big", signed=True)
    return f"[{ip}]:{port}" if isinstance(ip, IPv6Address) else f"{ip}:{port}"

"""The two ids of a message: where it is stored, and who sent it.

The *offset id* is where a message is stored: store host and position in the commit log.
The *unique key* was made by the sending client: ip, process, loader, time, counter.
Both are upper-case hex of 16 or 28 bytes; the text does not show which one it is.

Upstream: MessageDecoder.createMessageId, decodeMessageId; MessageClientIDSetter.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from struct import Struct

PORTS = range(1 << 16)  # Upstream: InetSocketAddress
_KEY_MAKER = Struct(">HI")  # pid, class loader's hash


def offset_msg_id(store_host: bytes, position: int) -> str:
    """The id by which the broker at *store_host* finds a message again."""
    return (store_host + position.to_bytes(8, "big", signed=True)).hex().upper()


def position_of(msg_id: str) -> int:
    """The position in the log that an offset message id names; whose log is not looked at.

    Raises ``ValueError`` for a text that is too short, not hexadecimal, or with a port that
    there is not.
    """
    data = bytes.fromhex(msg_id)
    start = 8 if len(msg_id) == 32 else 20  # behind ip and port
    if len(data) < start + 8:
        raise ValueError(f"{len(msg_id)} characters are none")
    if (port := int.from_bytes(data[start - 4 : start], "big", signed=True)) not in PORTS:
        raise ValueError(f"there is no port {port}")
    return int.from_bytes(data[start : start + 8], "big", signed=True)


class UniqKeys:
    """The keys one process gives its messages, no two alike.

    *ip* has 4 or 16 bytes; *loader_hash* differs for clients that share ip and pid.  Times
    count from the start of the month (UTC), which a key made later moves on.
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

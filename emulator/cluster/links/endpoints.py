"""The names of the two ends of a stream, and which faults of links affect them.

A node has its own name and its role's (``brokers`` and ``masters`` or ``slaves``, or
``name_servers``).  Every other peer is one of the ``clients``; at a NameServer no more is known.
At a broker, after the first heartbeat on a connection, its client also has its client id, the
instance name in that id, and its groups.

The heartbeat is read from the bytes that the proxy forwards: frames are split by their lengths
alone, and only the request code is decoded unless the frame is a heartbeat.  Invalid frames end
this reading, never the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from rocketmq_emulator.cluster.fault_values import LinkFault, Nodes
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.framing import FRAME_BYTES_MAX, JSON

Names: TypeAlias = frozenset[str]

CLIENTS, BROKERS, NAME_SERVERS = "clients", "brokers", "name_servers"
MASTERS, SLAVES = "masters", "slaves"
SOME_CLIENTS: Names = frozenset([CLIENTS])


def names_of_client(client_id: str, groups: Iterable[str]) -> Names:
    """The names of a client by its heartbeat: ``10.0.0.1@billing-1`` is also ``billing-1``."""
    parts = client_id.split("@")
    instance = parts[1] if len(parts) > 1 else client_id
    return frozenset([CLIENTS, client_id, instance, *groups])


def is_targeted(fault: LinkFault, source: Names, target: Names) -> bool:
    """Whether *fault* affects bytes from *source* to *target*."""
    if fault.around is not None:
        leaves, arrives = _is_one_of(fault.around, source), _is_one_of(fault.around, target)
        return leaves and not arrives if fault.one_way else leaves != arrives
    assert fault.between is not None
    first, second = fault.between
    if _is_one_of(first, source) and _is_one_of(second, target):
        return True
    if fault.one_way:
        return False
    return _is_one_of(first, target) and _is_one_of(second, source)


def _is_one_of(wanted: Nodes, names: Names) -> bool:
    """Whether *wanted* includes *names*; a group also includes ``<group>-1``, ``<group>-2`` …"""
    if not isinstance(wanted, str):
        return any(_is_one_of(one, names) for one in wanted)
    if wanted in names:
        return True
    if BROKERS in names:  # broker-a-1 is a slave, no member of a group broker-a
        return False
    return any(re.fullmatch(rf"{re.escape(wanted)}-\d+", name) for name in names)


# A client's names, from its heartbeats ------------------------------------------------


HEAD_BYTES = 8  # of a frame: frame length, then type and length of the header
CODE_BYTES_MAX = 64 * 1024  # of a header: a longer one is not a heartbeat's
_JSON_CODE = re.compile(rb'"code"\s*:\s*(\d+)')


class _Group(msgspec.Struct, rename="camel"):
    group_name: str | None = None


class _Heartbeat(msgspec.Struct, rename="camel"):
    client_id: str = msgspec.field(default="", name="clientID")
    consumer_data_set: list[_Group] = []
    producer_data_set: list[_Group] = []


_heartbeats = msgspec.json.Decoder(_Heartbeat)


class ClientNameReader:
    """Reads the bytes that a client sends; ``names`` are those of its latest heartbeat."""

    def __init__(self) -> None:
        self.names: Names | None = None
        self._buffer = b""
        self._skipped_bytes = 0  # bytes of a frame without interest, not received yet
        self._is_lost = False  # the bytes are not frames

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; returns whether ``names`` changed."""
        if self._is_lost:
            return False
        if self._skipped_bytes >= len(data):
            self._skipped_bytes -= len(data)
            return False
        data = self._buffer + data[self._skipped_bytes :]
        self._buffer, self._skipped_bytes = b"", 0
        start, before = 0, self.names
        while len(data) - start >= HEAD_BYTES:
            length = 4 + int.from_bytes(data[start : start + 4], "big", signed=True)
            word = int.from_bytes(data[start + 4 : start + 8], "big")
            header_bytes = word & 0xFFFFFF
            if not HEAD_BYTES <= length <= FRAME_BYTES_MAX or header_bytes > length - HEAD_BYTES:
                self._is_lost = True
                break
            whole = data[start : start + length]
            if len(whole) < HEAD_BYTES + header_bytes and header_bytes <= CODE_BYTES_MAX:
                break  # until its header is complete
            code = _code(word >> 24, whole[HEAD_BYTES : HEAD_BYTES + header_bytes])
            if code == RequestCode.HEART_BEAT:
                if len(whole) < length:
                    break  # until it is complete
                self._read_heartbeat(whole[HEAD_BYTES + header_bytes :])
            start += length
        if start > len(data):
            self._skipped_bytes = start - len(data)
        elif not self._is_lost:
            self._buffer = data[start:]
        return self.names != before

    def _read_heartbeat(self, body: bytes) -> None:
        try:
            told = _heartbeats.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return  # the broker reports the error
        groups = [*told.consumer_data_set, *told.producer_data_set]
        if told.client_id:
            self.names = names_of_client(
                told.client_id, [group.group_name for group in groups if group.group_name]
            )


def _code(serialize_type: int, header: bytes) -> int | None:
    if serialize_type != JSON:
        return int.from_bytes(header[:2], "big")
    found = _JSON_CODE.search(header)
    return int(found[1]) if found else None

"""The id and the groups of a client, read off the bytes it sends to a broker.

A proxy passes bytes on and need not understand them; but only a heartbeat says whose
connection it is.  So frames are cut by their lengths alone, and of each no more is looked at
than which call it is.  Bytes that are no frames end the reading, never the stream.
"""

from __future__ import annotations

import re

import msgspec

from emulator.cluster.links.sides import Names, names_of_client
from protocol.codes import RequestCode
from protocol.framing import FRAME_BYTES_MAX, JSON

HEAD_BYTES = 8  # of a frame: its length, then type and length of its header
CODE_BYTES_MAX = 64 * 1024  # of a header: a longer one is no heartbeat's
_JSON_CODE = re.compile(rb'"code"\s*:\s*(\d+)')


class _Group(msgspec.Struct, rename="camel"):
    group_name: str | None = None


class _Heartbeat(msgspec.Struct, rename="camel"):
    client_id: str = msgspec.field(default="", name="clientID")
    consumer_data_set: list[_Group] = []
    producer_data_set: list[_Group] = []


_heartbeats = msgspec.json.Decoder(_Heartbeat)


class ClientNames:
    """Fed with what a client sends; ``names`` are what its heartbeats have told."""

    def __init__(self) -> None:
        self.names: Names | None = None
        self._buffer = b""
        self._skipped_bytes = 0  # of a frame that is none of ours, still to come
        self._is_lost = False  # these are no frames

    def feed(self, data: bytes) -> bool:
        """Look at bytes in their order; True if ``names`` changed."""
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
                break  # until its header is here
            code = _code(word >> 24, whole[HEAD_BYTES : HEAD_BYTES + header_bytes])
            if code == RequestCode.HEART_BEAT:
                if len(whole) < length:
                    break  # until it is whole
                self._take(whole[HEAD_BYTES + header_bytes :])
            start += length
        if start > len(data):
            self._skipped_bytes = start - len(data)
        elif not self._is_lost:
            self._buffer = data[start:]
        return self.names != before

    def _take(self, body: bytes) -> None:
        try:
            told = _heartbeats.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return  # the broker says what is wrong with it
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

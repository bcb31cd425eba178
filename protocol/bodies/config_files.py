"""A long configuration file, written in pieces: the bytes are those of ``encode_config_file``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.bodies.body import Body, encode_config_file
from protocol.versions import Release

_BEGIN, _END = b'{\n\t"":{', b"\n\t}\n}"


def config_entries(piece: Mapping[Any, Any], release: Release) -> bytes:
    """The entries of *piece* as they stand in a map that is a member of the file."""
    if not piece:
        return b""
    return encode_config_file({"": piece}, release).removeprefix(_BEGIN).removesuffix(_END)


def filled_config_file(
    empty: Body, entries: Mapping[str, Sequence[bytes]], release: Release
) -> bytes:
    """The text of *empty* with these *entries* in its maps, by their name on the wire."""
    text = encode_config_file(empty, release)
    for name, pieces in entries.items():
        if any(pieces):
            begin = b'"%b":{' % name.encode()
            whole = begin + b",".join(filter(None, pieces)) + b"\n\t}"
            text = text.replace(begin + b"}", whole, 1)
    return text

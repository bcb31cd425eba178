"""What one request may cost to read: a frame that takes longer than that stalls everybody.

A frame may have 16 MB, as upstream.  But a header's fields and a JSON body's objects are
made one by one, and nothing else happens meanwhile.  So a header has a size of its own,
and what a JSON body holds is counted before it is decoded: counting is a thousand times
quicker.  Bodies that are messages are not read, and have no such limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fields import BadFields

if TYPE_CHECKING:
    from emulator.config import NetConfig
    from protocol.rpc import AnyRpc

COUNTED_BYTES_MIN = 64 * 1024  # a shorter body holds too little to be worth counting


def long_header(header_bytes: int, config: NetConfig) -> BadFields:
    """The refusal of a request whose header exceeds ``header_bytes_max``."""
    return BadFields(
        f"a header of {header_bytes} bytes: the limit is {config.header_bytes_max} "
        "(header_bytes_max); nothing was done"
    )


def check_body(rpc: AnyRpc, body: bytes, config: NetConfig) -> None:
    """Can a JSON body be decoded in good time?  Raises ``BadFields``; nothing was done."""
    if rpc.request_body is None or rpc.request_body is bytes:
        return
    objects = body.count(b"{")
    if rpc.answered_by == ("nameserver",):
        # Refused, it would lose a broker all its routes: better that others wait.
        name = "registration_objects_max"
        _check(objects, config.registration_objects_max, "objects", name)
        return
    _check(objects, config.body_objects_max, "objects", "body_objects_max")
    _check(body.count(b","), config.body_members_max, "members", "body_members_max")


def _check(count: int, count_max: int, what: str, name: str) -> None:
    if count > count_max:
        raise BadFields(
            f"a body of {count} {what}: the limit is {count_max} ({name}); nothing was done"
        )

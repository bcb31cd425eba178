"""A message on its way into the log: everything but its place."""

from __future__ import annotations

import msgspec


class Draft(msgspec.Struct):
    """What a sender (or the broker itself) wants stored.  Upstream: MessageExtBrokerInner."""

    body: bytes
    properties: str
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes  # packed ip and port
    reconsume_times: int = 0
    prepared_offset: int = 0
    store_host: bytes | None = None  # packed; None: this broker's

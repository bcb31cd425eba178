"""An address as records carry it: 4 or 16 bytes of ip, then an int32 port.

Texts are ``10.0.0.1:10911`` or ``[fd00::1]:10911``; names are not looked up here.
"""

from __future__ import annotations

import functools
from ipaddress import IPv6Address, ip_address

HOST_V4_BYTES = 8
HOST_V6_BYTES = 20
_HOSTS_KEPT_MAX = 4096


@functools.lru_cache(_HOSTS_KEPT_MAX)
def host_bytes(text: str) -> bytes:
    """The bytes of ``ip:port``.  Raises ``ValueError`` for a text that is not an address."""
    ip, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        raise ValueError(f"an address looks like 10.0.0.1:10911, not {text!r}")
    return ip_address(ip.strip("[]")).packed + int(port).to_bytes(4, "big", signed=True)


@functools.lru_cache(_HOSTS_KEPT_MAX)
def host_text(host: bytes) -> str:
    """The text of 8 or 20 such bytes.  Raises ``ValueError`` for any other length."""
    if len(host) not in (HOST_V4_BYTES, HOST_V6_BYTES):
        raise ValueError(f"an address has 8 or 20 bytes, not {len(host)}")
    ip = ip_address(host[:-4])
    port = int.from_bytes(host[-4:], "big", signed=True)
    return f"[{ip}]:{port}" if isinstance(ip, IPv6Address) else f"{ip}:{port}"

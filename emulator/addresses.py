"""An address of the network as text: ``127.0.0.1:9876``, ``[::1]:9876``, ``namesrv:9876``.

Whether such a thing can be is decided here, once for settings, flags and sockets; whether
somebody listens there only the network knows.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

PORT_MAX = 65_535
EXAMPLE = "an address looks like 127.0.0.1:9876"
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_ONLY_DIGITS = re.compile(r"[0-9.]+")


def split_address(address: str) -> tuple[str, int]:
    """Host and port.  Raises ``ValueError`` for a text that can be no address."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        raise ValueError(f"{EXAMPLE}, not {address!r}")
    if int(port) > PORT_MAX:
        raise ValueError(f"{EXAMPLE}, with a port up to {PORT_MAX}, not {address!r}")
    return host.strip("[]"), int(port)


def check_target(address: str) -> None:
    """Can one connect to *address*?  Raises ``ValueError``: it needs a host and a port."""
    host, port = split_address(address)
    if not host:
        raise ValueError(f"{EXAMPLE}; {address!r} has no host")
    if port == 0:
        raise ValueError(f"{EXAMPLE}; {address!r} has no port to connect to")
    _check_host(host)


def check_listening(address: str) -> None:
    """Can one listen at *address*?  Raises ``ValueError``.  Port 0: any; no host: every one."""
    host, _ = split_address(address)
    if host:
        _check_host(host)


def _check_host(host: str) -> None:
    if ":" in host or _ONLY_DIGITS.fullmatch(host):
        try:
            ip_address(host)
        except ValueError:
            raise ValueError(f"{host!r} is not an IP address") from None
    elif not _NAME.fullmatch(host):
        raise ValueError(f"{host!r} is not the name of a host; {EXAMPLE}")


def join_address(name: tuple[object, ...]) -> str:
    """A socket's name as "ip:port" or "[ip6]:port"."""
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"

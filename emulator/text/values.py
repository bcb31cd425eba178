"""Values as people write and read them: addresses, durations, names in natural order.

Addresses are ``127.0.0.1:9876``, ``[::1]:9876``, ``namesrv:9876``.  The form is checked here, for
settings, flags and sockets; whether a server listens there is not.  Durations are "200ms", "30s",
"10m", "2h", "1h30m".

Natural order puts ``orders-2`` before ``orders-10``; it is for display only.  Queues are allocated
in Java's order of names: see ``rocketmq_emulator.protocol.queues``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from ipaddress import ip_address

# Addresses ----------------------------------------------------------------------------


PORT_MAX = 65_535
ADDRESS_EXAMPLE = "an address looks like 127.0.0.1:9876"
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_ONLY_DIGITS = re.compile(r"[0-9.]+")


def split_address(address: str) -> tuple[str, int]:
    """Host and port.  Raises ``ValueError`` for a text that is no address."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        raise ValueError(f"{ADDRESS_EXAMPLE}, not {address!r}")
    if int(port) > PORT_MAX:
        raise ValueError(f"{ADDRESS_EXAMPLE}, with a port up to {PORT_MAX}, not {address!r}")
    return host.strip("[]"), int(port)


def check_connect_address(address: str) -> None:
    """Check an address to connect to.  Raises ``ValueError``, also without host or port."""
    host, port = split_address(address)
    if not host:
        raise ValueError(f"{ADDRESS_EXAMPLE}; {address!r} has no host")
    if port == 0:
        raise ValueError(f"{ADDRESS_EXAMPLE}; {address!r} has no port to connect to")
    _check_host(host)


def check_listen_address(address: str) -> None:
    """Check an address to listen at.  Raises ``ValueError``.  No host: all interfaces."""
    host, _ = split_address(address)
    if host:
        _check_host(host)


def _check_host(host: str) -> None:
    if ":" in host or _ONLY_DIGITS.fullmatch(host):
        try:
            ip_address(host)
        except ValueError:
            raise ValueError(f"{host!r} is not an IP address") from None
    elif not _HOST_NAME.fullmatch(host):
        raise ValueError(f"{host!r} is not the name of a host; {ADDRESS_EXAMPLE}")


def join_address(name: tuple[object, ...]) -> str:
    """A socket's name as "ip:port" or "[ip6]:port"."""
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def vip_channel(address: str) -> str:
    """The address of a broker's VIP channel: two ports below.  Upstream: MixAll.brokerVIPChannel.

    A text that is no address is returned unchanged: connecting to it raises an error.
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}" if port.isdigit() and len(port) < 6 else address


def next_port(address: str) -> str:
    """The address one port above: of a broker, where slaves connect by default.

    A text that is no address is returned unchanged.  Upstream: BrokerStartup, haListenPort.
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1}" if port.isdigit() and len(port) < 6 else address


# Durations ----------------------------------------------------------------------------


UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:\s*{_PART.pattern})+\s*")


def parse_duration_ms(text: str) -> int:
    """*text* in ms.  Raises ``ValueError``, whose text has an example."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'a length of time is written as "200ms", "30s" or "10m", not {text!r}')
    return round(sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(text)))


# Natural order ------------------------------------------------------------------------


DIGITS = re.compile(r"(\d{1,18})")  # longer runs are no counts, and are split


@functools.lru_cache(maxsize=10_000)
def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """A key that sorts digits by value, and names that are equal by value by their text."""
    parts = DIGITS.split(name)
    return tuple(int(part) if at % 2 else part for at, part in enumerate(parts)), name


def in_natural_order(names: Iterable[str]) -> list[str]:
    """As ``sorted``, with digits sorted by value."""
    return sorted(names, key=natural)

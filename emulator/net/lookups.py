"""Lookups outside of RocketMQ's protocol: a host's IP by DNS, a NameServer list by HTTP.

Clients may connect to a host name, but a message id contains an IP, so a broker resolves its
address when it starts.  HTTP is for the address server (``address_server``): the standard
library's client, in a worker thread.  Few processes use it, once in two minutes, so it is
imported at its first use.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import trio

from rocketmq_emulator.net.address_server import HttpFailed
from rocketmq_emulator.net.transport import HostUnknown

Found: TypeAlias = tuple[Any, Any, Any, Any, tuple[Any, ...]]  # of getaddrinfo

# Host names ---------------------------------------------------------------------------


async def resolve_address(address: str) -> str:
    """*address* with an IP for the host name; IPv4 first, because older clients need it.

    Raises ``HostUnknown``.
    """
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return f"{await _first_ip(host)}:{port}"
    return address


def resolve_blocking(address: str) -> str:
    """As ``resolve_address``, in a thread that may block."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise _unknown(host) from error
    return f"{_preferred(found)}:{port}"


async def _first_ip(host: str) -> str:
    try:
        found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise _unknown(host) from error
    return _preferred(found)


def _unknown(host: str) -> HostUnknown:
    return HostUnknown(f"the host name {host!r} cannot be resolved")


def _preferred(found: Sequence[Found]) -> str:
    """The IPv4 address if there is one: older clients need it."""
    ips = sorted((family != socket.AF_INET, str(name[0])) for family, _, _, _, name in found)
    is_six, ip = ips[0]
    return f"[{ip}]" if is_six else ip


# HTTP ---------------------------------------------------------------------------------


BODY_BYTES_MAX = 64 * 1024  # ours: of a list of NameServers


class ThreadedHttpFetcher:
    """``HttpFetcher`` over real sockets."""

    async def get(self, url: str, timeout_ms: int) -> str:
        """As ``HttpFetcher.get``; cancelling it does not stop its thread."""
        return await trio.to_thread.run_sync(
            partial(_get, url, timeout_ms / 1000), abandon_on_cancel=True
        )


def _get(url: str, timeout_s: float) -> str:
    import http.client  # noqa: PLC0415  # see above
    from urllib.parse import urlsplit  # noqa: PLC0415

    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
    try:
        connection.request("GET", path)
        with connection.getresponse() as reply:
            status, body = reply.status, reply.read(BODY_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise HttpFailed(str(error) or repr(error)) from error
    finally:
        connection.close()
    if status != http.client.OK:
        raise HttpFailed(f"HTTP status {status}")
    return body.decode("utf-8", "replace")

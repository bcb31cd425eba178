"""Names of hosts: what a client dials may be one, what a message id carries may not."""

from __future__ import annotations

import ipaddress
import socket

import trio

from emulator.net.transport import HostUnknown


async def numeric(address: str) -> str:
    """The same address with an IP; IPv4 first, because older clients know nothing else.

    Raises ``HostUnknown``.
    """
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return f"{await _first_ip(host)}:{port}"
    return address


async def _first_ip(host: str) -> str:
    try:
        found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise HostUnknown(f"the host name {host!r} cannot be resolved") from error
    ips = sorted((family != socket.AF_INET, str(name[0])) for family, _, _, _, name in found)
    is_six, ip = ips[0]
    return f"[{ip}]" if is_six else ip

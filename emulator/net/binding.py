"""A TCP socket bound to an address of ours, or an error that says which and why not."""

from __future__ import annotations

import errno
import socket

from emulator.addresses import split_address
from emulator.net.transport import AddressInUse


def bound_socket(address: str) -> socket.socket:
    """A non-blocking socket at *address* that does not listen yet; port 0 is any free one.

    Raises ``AddressInUse``, or ``OSError`` for an address that is not ours.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(False)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(error.errno, f"{address} is in use") from error
        reason = str(error.strerror or error).lower()
        raise OSError(error.errno, f"cannot listen on {address}: {reason}") from error
    return sock

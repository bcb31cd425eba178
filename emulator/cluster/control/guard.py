"""Who may use the control address: programs of this machine, and no page of a browser.

The listener is on loopback, but a page from anywhere runs in a browser of this machine.  Its
requests bear its origin, or the name of a host that somebody made resolve to loopback (DNS
rebinding); both are refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from http import HTTPStatus

from emulator.cluster.control.conversation import Refused

OWN_SITES = ("same-origin", "none")  # of Sec-Fetch-Site: our own page, or typed by the user


def check_sender(headers: Mapping[str, str]) -> None:
    """Raises ``Refused``; *headers* have their names in lower case."""
    host = headers.get("host", "")
    if not is_loopback(host):
        text = f"Host is {host!r}: this address answers to 127.0.0.1, [::1] and localhost only"
        raise Refused(HTTPStatus.FORBIDDEN, text)
    origin = headers.get("origin")
    is_foreign = origin is not None and origin != f"http://{host}"
    if is_foreign or headers.get("sec-fetch-site", "none") not in OWN_SITES:
        where = f" (Origin {origin})" if origin else ""
        text = f"requests of pages from elsewhere{where} are refused: this is for programs"
        raise Refused(HTTPStatus.FORBIDDEN, text)


def is_loopback(host: str) -> bool:
    """Is *host*, perhaps with a port, this machine as only itself reaches it?"""
    name = host.partition("]")[0].removeprefix("[") if host[:1] == "[" else host.partition(":")[0]
    if name.lower().removesuffix(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

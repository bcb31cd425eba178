"""Where NameServers are asked for when none is configured: an HTTP server that lists them.

Its answer is one line, ``host:port;host:port``.  A list that differs from the last one
replaces it; when there is no answer, or none that names an address, the last one stays.

Upstream: TopAddressing, MixAll.getWSAddr, MQClientAPIImpl.fetchNameServerAddr,
BrokerOuterAPI.fetchNameServerAddr.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rocketmq_emulator.facts import AddressServerFailed, NameServersChanged
from rocketmq_emulator.protocol.error_families import NobodyAnswered

if TYPE_CHECKING:
    from rocketmq_emulator.facts import Note

FETCH_MS_MAX = 3_000  # TopAddressing.fetchNSAddr
FETCH_FIRST_MS = 10_000  # MQClientInstance.startScheduledTask, BrokerController.initialize
FETCH_INTERVAL_MS = 120_000  # the same
DEFAULT_SUBGROUP = "nsaddr"  # MixAll.WS_DOMAIN_SUBGROUP
_PORT = 8080  # MixAll.getWSAddr


class HttpFailed(NobodyAnswered, OSError):
    """No answer, or not a good one; what was known stays."""


class HttpFetcher(Protocol):
    """Whoever can get a text by HTTP: a thread, or a fake in the virtual world."""

    async def get(self, url: str, timeout_ms: int) -> str:
        """The body of an answer with status 200.  Raises ``HttpFailed``."""
        ...


class NoHttp:
    """``HttpFetcher`` of a world in which nobody serves HTTP."""

    async def get(self, url: str, timeout_ms: int) -> str:
        """Fails."""
        raise HttpFailed(
            f"no answer from {url} within {timeout_ms} ms: there is no HTTP in this world"
        )


class AddressServer:
    """The list of one server; *on_changed* is given each new one."""

    def __init__(
        self,
        url: str,
        http: HttpFetcher,
        note: Note,
        on_changed: Callable[[tuple[str, ...]], object],
    ) -> None:
        self.url = url
        self._http = http
        self._note = note
        self._on_changed = on_changed
        self._known: frozenset[str] = frozenset()

    async def fetch(self) -> None:
        """Ask once, for three seconds at most.  A failure is a fact, not an error."""
        try:
            text = await self._http.get(self.url, FETCH_MS_MAX)
        except HttpFailed as error:
            self._note(AddressServerFailed(self.url, str(error)))
            return
        addresses = addresses_in(text)
        if not addresses:
            self._note(AddressServerFailed(self.url, "the answer names no address"))
        elif self._known != frozenset(addresses):
            self._known = frozenset(addresses)
            self._note(NameServersChanged(self.url, addresses))
            self._on_changed(addresses)


def url_of(domain: str, subgroup: str = DEFAULT_SUBGROUP, unit_name: str = "") -> str:
    """What is asked; *domain* may name a port, *unit_name* is a client's.

    Upstream: MixAll.getWSAddr, TopAddressing.fetchNSAddr.
    """
    host = domain if domain.find(":") > 0 else f"{domain}:{_PORT}"
    unit = f"-{unit_name}?nofix=1" if unit_name.strip() else ""
    return f"http://{host}/rocketmq/{subgroup}{unit}"


def addresses_in(text: str) -> tuple[str, ...]:
    """Those of the first line.  Upstream: TopAddressing.clearNewLine."""
    lines = text.strip().splitlines()
    parts = lines[0].split(";") if lines else []
    return tuple(part.strip() for part in parts if part.strip())

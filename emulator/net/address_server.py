"""The address server: it lists the NameServers over HTTP, for nodes with none configured.

Its reply is one line, ``host:port;host:port``.  A list that differs from the last one
replaces it; if there is no reply, or none with an address, the last list stays.

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
    """No HTTP reply, or not status 200; the known list stays."""


class HttpFetcher(Protocol):
    """Gets a text by HTTP: ``ThreadedHttpFetcher``, or a fake in a virtual world."""

    async def get(self, url: str, timeout_ms: int) -> str:
        """The body of a reply with status 200.  Raises ``HttpFailed``."""
        ...


class NoHttp:
    """``HttpFetcher`` of a world without HTTP servers."""

    async def get(self, url: str, timeout_ms: int) -> str:
        """Raises ``HttpFailed``, always."""
        raise HttpFailed(
            f"no answer from {url} within {timeout_ms} ms: there is no HTTP in this world"
        )


class AddressServer:
    """The list of one address server; *on_changed* is called with each new list."""

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
        """Fetch the list once, in three seconds at most.  A failure is noted, not raised."""
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
    """The URL of the list; *domain* may have a port, *unit_name* is a client's.

    Upstream: MixAll.getWSAddr, TopAddressing.fetchNSAddr.
    """
    host = domain if domain.find(":") > 0 else f"{domain}:{_PORT}"
    unit = f"-{unit_name}?nofix=1" if unit_name.strip() else ""
    return f"http://{host}/rocketmq/{subgroup}{unit}"


def addresses_in(text: str) -> tuple[str, ...]:
    """The addresses in the first line of *text*.  Upstream: TopAddressing.clearNewLine."""
    lines = text.strip().splitlines()
    parts = lines[0].split(";") if lines else []
    return tuple(part.strip() for part in parts if part.strip())

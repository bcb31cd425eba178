"""The two small files by which a broker keeps the id that a controller gave it.

``brokerIdentity`` has the cluster, the broker name and the id, joined by ``#``.  Before the id is
granted the broker writes ``brokerIdentity-temp``, which has a check code, too: whoever applies
with the same code gets the same id again, so a broker that ends between both files loses nothing.

Upstream: BrokerMetadata, TempBrokerMetadata, MetadataFile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk

IDENTITY = "brokerIdentity"  # StorePathConfigHelper.getStorePathBrokerIdentity
TEMPORARY = f"{IDENTITY}-temp"


class BrokerMetadata(NamedTuple):
    """The id of a broker in its name; *check_code* is set while the id is only applied for."""

    cluster: str
    broker_name: str
    broker_id: int
    check_code: str = ""

    def encode(self) -> bytes:
        """The text of the file."""
        fields = (self.cluster, self.broker_name, str(self.broker_id), self.check_code)
        return "#".join(fields if self.check_code else fields[:3]).encode()


class BrokerMetadataFiles:
    """Both files on *disk*.  Reading a file that has no such text gives None, as in upstream."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def identity(self) -> BrokerMetadata | None:
        """The id that was granted."""
        return _decoded(self._disk.read(IDENTITY), fields=3)

    def applied_for(self) -> BrokerMetadata | None:
        """The id that was applied for, and perhaps not granted."""
        return _decoded(self._disk.read(TEMPORARY), fields=4)

    def apply_for(self, wanted: BrokerMetadata) -> None:
        """Keep *wanted*, which has a check code.  Raises ``WRITE_ERRORS``."""
        self._disk.replace(TEMPORARY, wanted.encode(), flushed=True)

    def withdraw(self) -> None:
        """Forget what was applied for.  Raises ``WRITE_ERRORS``."""
        self._disk.replace(TEMPORARY, b"")

    def grant(self, applied_for: BrokerMetadata) -> BrokerMetadata:
        """Keep the id, and return it without its check code.  Raises ``WRITE_ERRORS``."""
        granted = applied_for._replace(check_code="")
        self._disk.replace(IDENTITY, granted.encode(), flushed=True)
        self.withdraw()
        return granted


def _decoded(text: bytes | None, *, fields: int) -> BrokerMetadata | None:
    parts = (text or b"").decode("utf-8", "replace").split("#")
    if len(parts) < fields or not all(parts[:fields]):
        return None
    try:
        number = int(parts[2])
    except ValueError:
        return None
    return BrokerMetadata(parts[0], parts[1], number, parts[3] if fields > 3 else "")

"""What brokers delivered of messages that waited, and may deliver once more.

A broker writes its progress of delays every 10 s.  One that began again goes on from what it wrote
last, and delivers once more what it had delivered since then: each of these, and each once.
"""

from __future__ import annotations

from emulator.checks.chains import Chains
from emulator.checks.scene import Scene
from emulator.facts import Queue
from emulator.journal import Entry

CAME_MAX = 100_000  # delivered messages that are remembered
DUE_US = 1_500_000  # a broker and the journal know the time at which a copy is due so exactly
FORGOTTEN_US = 25_000_000


class Deliveries:
    """Of all brokers: what came, by key and queue."""

    def __init__(self, scene: Scene, chains: Chains) -> None:
        self._scene = scene
        self._chains = chains
        self._came_us: dict[tuple[str, str, Queue], list[int]] = {}  # by broker, key and target

    def came_us(self, key: str, target: Queue, entry: Entry) -> list[int]:
        """When the broker that noted *entry* delivered *key* to *target*; to be added to."""
        found = self._came_us.setdefault((entry.node, key, target), [])
        if len(self._came_us) > CAME_MAX:
            del self._came_us[next(iter(self._came_us))]
        return found

    def is_once_more(
        self, key: str, waited: Queue, late_ms: int, came_us: list[int], entry: Entry
    ) -> bool:
        """The broker may have forgotten one of these; no copy in *waited* was due so long ago."""
        due_us = entry.mono_us - late_ms * 1_000
        here = (copy for copy in self._chains.waiting.get(key, ()) if copy.records.queue == waited)
        return self._forgotten(came_us, entry) is not None and all(
            copy.due_us is not None and abs(copy.due_us - due_us) > DUE_US for copy in here
        )

    def forgets(self, came_us: list[int], entry: Entry) -> bool:
        """The broker had forgotten one of these when it began again; that one is used up."""
        forgotten_us = self._forgotten(came_us, entry)
        if forgotten_us is not None:
            came_us.remove(forgotten_us)
        return forgotten_us is not None

    def _forgotten(self, came_us: list[int], entry: Entry) -> int | None:
        ended_us = self._scene.ended_us(entry.node, entry.mono_us)
        if ended_us >= entry.mono_us:
            return None
        return next((at for at in came_us if 0 <= ended_us - at < FORGOTTEN_US), None)

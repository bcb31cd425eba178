"""How the members of a group ask for the messages of a topic: by pulls, the only way here.

What an administrator sets is kept in upstream's own file.  A mode of POP that a real broker
left there is not read: members are told to pull.

Upstream: MessageRequestModeManager (5.x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.broker.checks import check_room
from emulator.broker.tables.documents import Document
from protocol.bodies.running import MessageRequestModeTable, SetMessageRequestModeBody

if TYPE_CHECKING:
    from emulator.config import BrokerConfig
    from emulator.disk.port import Disk
    from emulator.facts import Note

DOCUMENT = "messageRequestMode.json"
PULL = "PULL"


class MessageRequestModes:
    """Topic to group to what was set, as it is on *disk*."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note) -> None:
        self._config = config
        self._document = Document(disk, DOCUMENT, MessageRequestModeTable, config.profile, note)
        saved = self._document.load() or MessageRequestModeTable()
        self._by_topic = {topic: dict(of) for topic, of in saved.message_request_mode_map.items()}

    def get(self, topic: str, group: str) -> SetMessageRequestModeBody | None:
        """What was set for a group and a topic; None if nothing was."""
        return self._by_topic.get(topic, {}).get(group)

    def reset(self) -> None:
        """Nothing was ever set."""
        if self._by_topic:
            self._by_topic = {}
            self._document.save(MessageRequestModeTable())

    def set(self, topic: str, group: str, body: SetMessageRequestModeBody) -> None:
        """Keep it, on disk before the caller goes on.  Raises ``Refusal`` if there is no room."""
        if self.get(topic, group) is None:
            count = sum(map(len, self._by_topic.values()))
            check_room(count, self._config.committed_max, "request modes")
        self._by_topic.setdefault(topic, {})[group] = body
        self._document.save(MessageRequestModeTable(message_request_mode_map=self._by_topic))

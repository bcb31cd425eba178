"""Settings of consumer groups, and the request modes of their members.

A lookup creates a missing group, with defaults, unless auto-creation is off; nearly every group
is created that way.  The request mode of a group and topic (5.x) is always PULL: the settings of
an administrator are kept in upstream's own file, but a mode of POP from a real broker is ignored.

Upstream: SubscriptionGroupManager, MessageRequestModeManager (5.x).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.broker.tables.checks import check_name, check_room
from rocketmq_emulator.broker.tables.documents import Document, TableChange, TableDocument
from rocketmq_emulator.facts import GroupCreated, GroupDeleted
from rocketmq_emulator.net.results import Refusal, see_faq
from rocketmq_emulator.protocol.bodies.groups import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rocketmq_emulator.protocol.bodies.running import (
    MessageRequestModeTable,
    SetMessageRequestModeBody,
)
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.java.java_json_writer import CachedTextDict
from rocketmq_emulator.protocol.messages import names
from rocketmq_emulator.protocol.messages.validation import broker_refuses_group
from rocketmq_emulator.settings.releases import GROUP_NAMES_CHECKED, MORE_SYSTEM_GROUPS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig


DOCUMENT = "subscriptionGroup.json"
SLOW_QUEUES_MAX = 100_000  # ours: pairs of group and queue
_OWN_GROUPS = (
    names.TOOLS_CONSUMER_GROUP,
    names.FILTERSRV_CONSUMER_GROUP,
    names.SELF_TEST_CONSUMER_GROUP,
    names.ONS_HTTP_PROXY_GROUP,
    names.CID_ONSAPI_PULL_GROUP,
    names.CID_ONSAPI_PERMISSION_GROUP,
    names.CID_ONSAPI_OWNER_GROUP,
)


class SubscriptionGroups:
    """All groups of one broker: those saved on *disk*, and the broker's own."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note, now_ms: int = 0) -> None:
        self.config = config
        self._note = note
        self._document = TableDocument[SubscriptionGroupWrapper, SubscriptionGroupConfig](
            disk,
            DOCUMENT,
            (SubscriptionGroupWrapper, TableChange[SubscriptionGroupConfig]),
            config.parsed_release,
            note,
            self._wrapper,
            flushed=config.is_sync_flush,
        )
        has_more = config.parsed_release >= MORE_SYSTEM_GROUPS
        own = (*_OWN_GROUPS, names.CID_SYS_RMQ_TRANS) if has_more else _OWN_GROUPS
        self._own = own
        self.subscription_group_table = _with_defaults(own)
        self._forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion(timestamp=now_ms)
        self.state_version = 0  # as of topics
        self.behind_bytes: dict[tuple[str, str, int], int] = {}  # by group and queue, if wanted
        self._load()

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """The group; None if it is missing.  Does not create it."""
        return self.subscription_group_table.get(name)

    def find(self, name: str, now_ms: int, *, by: str) -> SubscriptionGroupConfig | None:
        """The group; a missing one is created, or None if that is off.

        Upstream: SubscriptionGroupManager.findSubscriptionGroupConfig.
        """
        known = self.subscription_group_table.get(name)
        if known is not None or not self._may_create(name):
            return known
        self.check_room(name)
        made = SubscriptionGroupConfig(group_name=name)
        self.subscription_group_table[name] = made
        self._changed(name, now_ms)
        self._note(GroupCreated(name, by))
        return made

    def require(self, name: str, now_ms: int, *, by: str) -> SubscriptionGroupConfig:
        """As ``find``, but raises ``Refusal`` instead of returning None."""
        found = self.find(name, now_ms, by=by)
        if found is None:
            remark = f"subscription group not exist, {name} {see_faq(self.config.parsed_release)}"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return found

    def all(self) -> list[SubscriptionGroupConfig]:
        """All groups, the broker's own included."""
        return list(self.subscription_group_table.values())

    def read(self, group: str, topic: str, queue_id: int, behind_bytes: int) -> None:
        """*group* has read a queue up to *behind_bytes* before the end of the log."""
        key = (group, topic, queue_id)
        if key in self.behind_bytes or len(self.behind_bytes) < SLOW_QUEUES_MAX:
            self.behind_bytes[key] = behind_bytes

    def disable_slow(self, now_ms: int) -> None:
        """Forbid to consume to groups that read too far behind, until an administrator allows it.

        Upstream: BrokerController.protectBroker, SubscriptionGroupManager.disableConsume.
        """
        if not self.config.disable_slow_consumers:
            return
        bytes_max = self.config.slow_consumer_bytes_max
        slow = {group for (group, _, _), behind in self.behind_bytes.items() if behind > bytes_max}
        for name in sorted(slow):
            group = self.subscription_group_table.get(name)
            if group is not None and group.consume_enable:
                self.update(msgspec.structs.replace(group, consume_enable=False), now_ms)

    def update(self, config: SubscriptionGroupConfig, now_ms: int) -> None:
        """Create or change a group, for an administrator.

        Upstream: SubscriptionGroupManager.updateSubscriptionGroupConfig.
        """
        name = config.group_name or ""
        is_new = name not in self.subscription_group_table
        self.subscription_group_table[name] = config
        self._changed(name, now_ms)
        if is_new:
            self._note(GroupCreated(name, "admin"))

    def delete(self, name: str, now_ms: int) -> None:
        """Remove a group; nothing if it is missing.

        Upstream: SubscriptionGroupManager.deleteSubscriptionGroupConfig.
        """
        self._forbidden.pop(name, None)
        if self.subscription_group_table.pop(name, None) is not None:
            self._changed(name, now_ms)
            self._note(GroupDeleted(name))

    def reset(self, kept: Iterable[str], now_ms: int) -> None:
        """Remove all groups but the broker's own and *kept*, and set defaults in these."""
        self.behind_bytes.clear()
        known = [name for name in kept if name in self.subscription_group_table]
        self.subscription_group_table = _with_defaults((*self._own, *known))
        self._forbidden = {}
        self.data_version = self.data_version.next(now_ms, self.state_version)
        self._document.rewrite_whole()

    def replace_all(
        self,
        table: Mapping[str, SubscriptionGroupConfig],
        version: DataVersion,
        *,
        is_saved: bool = True,
    ) -> None:
        """Replace the table by a master's, and save it unless *is_saved* is False.

        The forbiddenTable stays: a slave does not copy it.
        """
        self.subscription_group_table = CachedTextDict(table.items())
        self.data_version = version
        if is_saved:
            self._document.rewrite_whole()

    def forbid_nothing(self) -> None:
        """Forget what is forbidden to groups, as the deletion of each group does."""
        self._forbidden = {}

    def saved_in_one_write(self) -> AbstractContextManager[None]:
        """Write all changes of this block at its end; if that fails, a later save writes them."""
        return self._document.saved_in_one_write()

    def close(self) -> None:
        """Write all changes to the main file, as upstream does."""
        self._document.rewrite()

    def check_room(self, name: str) -> None:
        """Raises ``Refusal`` if there is no room for the group *name*, or the name is too long."""
        table = self.subscription_group_table
        if name not in table:
            check_name(name, "a group's name")
            check_room(len(table), self.config.groups_max, "groups")

    def _may_create(self, name: str) -> bool:
        is_system = names.is_system_consumer_group(name)
        if not (self.config.auto_create_group or is_system):
            return False
        if self.config.parsed_release < GROUP_NAMES_CHECKED:
            return True
        return broker_refuses_group(name) is None

    def _changed(self, name: str, now_ms: int) -> None:
        self.data_version = self.data_version.next(now_ms, self.state_version)
        put = self.subscription_group_table.subset([name])
        change = TableChange[SubscriptionGroupConfig](
            data_version=self.data_version, put=put, removed=[] if put else [name]
        )
        self._document.save(change, must_be_saved=False)

    def _load(self) -> None:
        saved, changes = self._document.load()
        if saved is None:
            return
        self.subscription_group_table.update(saved.subscription_group_table)
        self._forbidden = saved.forbidden_table or {}
        self.data_version = saved.data_version
        for change in changes:
            self.subscription_group_table.update(change.put)
            for name in change.removed:
                self.subscription_group_table.pop(name, None)
                self._forbidden.pop(name, None)
            self.data_version = change.data_version
        self._document.rewrite()

    def _wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            subscription_group_table=self.subscription_group_table,
            data_version=self.data_version,
            forbidden_table=self._forbidden,
        )


def _with_defaults(names: Iterable[str]) -> CachedTextDict[SubscriptionGroupConfig]:
    return CachedTextDict((name, SubscriptionGroupConfig(group_name=name)) for name in names)


# Message request modes ----------------------------------------------------------------


REQUEST_MODE_DOCUMENT = "messageRequestMode.json"
PULL = "PULL"


class MessageRequestModes:
    """Topic to group to request mode, as saved on *disk*."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note) -> None:
        self._config = config
        self._document = Document(
            disk, REQUEST_MODE_DOCUMENT, MessageRequestModeTable, config.parsed_release, note
        )
        saved = self._document.load() or MessageRequestModeTable()
        self._by_topic = {topic: dict(of) for topic, of in saved.message_request_mode_map.items()}

    def get(self, topic: str, group: str) -> SetMessageRequestModeBody | None:
        """The mode that was set for a group and a topic; None if none was."""
        return self._by_topic.get(topic, {}).get(group)

    @property
    def count(self) -> int:
        """Pairs of a topic and a group with a mode."""
        return sum(map(len, self._by_topic.values()))

    def reset(self) -> None:
        """Remove all modes."""
        if self._by_topic:
            self._by_topic = {}
            self._document.save(MessageRequestModeTable())

    def table(self) -> MessageRequestModeTable:
        """All modes, as they are saved and sent."""
        return MessageRequestModeTable(message_request_mode_map=self._by_topic)

    def replace_all(self, table: MessageRequestModeTable) -> None:
        """Replace all modes by a master's, and save them."""
        self._by_topic = {topic: dict(of) for topic, of in table.message_request_mode_map.items()}
        self._document.save(self.table())

    def set(self, topic: str, group: str, body: SetMessageRequestModeBody) -> None:
        """Set and save a mode before it returns.  Raises ``Refusal`` if there are too many."""
        if self.get(topic, group) is None:
            check_room(self.count, self._config.request_modes_max, "request modes")
        self._by_topic.setdefault(topic, {})[group] = body
        self._document.save(self.table())

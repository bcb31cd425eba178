"""The subscription groups: how the broker treats each consumer group.

Asking for a group makes it, with defaults, unless auto-creation is off; that is how
nearly every group comes to be.

Upstream: SubscriptionGroupManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from emulator.broker.checks import check_name, check_room
from emulator.broker.tables.table_document import TableChange, TableDocument
from emulator.facts import GroupCreated, GroupDeleted
from emulator.net.faq import see_faq
from emulator.net.results import Refusal
from emulator.releases import GROUP_NAMES_CHECKED, MORE_SYSTEM_GROUPS
from protocol import names
from protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from protocol.bodies.topics import DataVersion
from protocol.codes import ResponseCode
from protocol.text_table import TextTable
from protocol.validation import broker_refuses_group

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from emulator.config import BrokerConfig
    from emulator.disk.port import Disk
    from emulator.facts import Note

DOCUMENT = "subscriptionGroup.json"
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
    """Every group of one broker: those saved on *disk*, and the broker's own."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note, now_ms: int = 0) -> None:
        self.config = config
        self._note = note
        self._document = TableDocument[SubscriptionGroupWrapper, SubscriptionGroupConfig](
            disk,
            DOCUMENT,
            (SubscriptionGroupWrapper, TableChange[SubscriptionGroupConfig]),
            config.profile,
            note,
            self._whole,
            flushed=config.is_sync_flush,
        )
        has_more = config.profile >= MORE_SYSTEM_GROUPS
        own = (*_OWN_GROUPS, names.CID_SYS_RMQ_TRANS) if has_more else _OWN_GROUPS
        self._own = own
        self.subscription_group_table = _with_defaults(own)
        self._forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion(timestamp=now_ms)
        self._load()

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """The group if it is known; never makes one."""
        return self.subscription_group_table.get(name)

    def find(self, name: str, now_ms: int, *, by: str) -> SubscriptionGroupConfig | None:
        """The group, new if need be; None if it may not be made.

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
        """The group, new if need be.  Raises ``Refusal`` if it may not be made."""
        found = self.find(name, now_ms, by=by)
        if found is None:
            remark = f"subscription group not exist, {name} {see_faq(self.config.profile)}"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return found

    def all(self) -> list[SubscriptionGroupConfig]:
        """Every group, the broker's own included."""
        return list(self.subscription_group_table.values())

    def update(self, config: SubscriptionGroupConfig, now_ms: int) -> None:
        """What an administrator sets, new or not.

        Upstream: SubscriptionGroupManager.updateSubscriptionGroupConfig.
        """
        name = config.group_name or ""
        is_new = name not in self.subscription_group_table
        self.subscription_group_table[name] = config
        self._changed(name, now_ms)
        if is_new:
            self._note(GroupCreated(name, "admin"))

    def delete(self, name: str, now_ms: int) -> None:
        """Remove it if it is there.

        Upstream: SubscriptionGroupManager.deleteSubscriptionGroupConfig.
        """
        self._forbidden.pop(name, None)
        if self.subscription_group_table.pop(name, None) is not None:
            self._changed(name, now_ms)
            self._note(GroupDeleted(name))

    def reset(self, kept: Iterable[str], now_ms: int) -> None:
        """The broker's own groups stay, and *kept*, all with the settings of a new group."""
        known = [name for name in kept if name in self.subscription_group_table]
        self.subscription_group_table = _with_defaults((*self._own, *known))
        self._forbidden = {}
        self.data_version = self.data_version.next(now_ms)
        self._document.begin_anew()

    def saved_together(self) -> AbstractContextManager[None]:
        """All that changes inside is saved once, at the end; what finds no room, later."""
        return self._document.saved_together()

    def close(self) -> None:
        """Leave one file, as upstream does."""
        self._document.rewrite()

    def check_room(self, name: str) -> None:
        """May there be a group of that name?  Raises ``Refusal``."""
        table = self.subscription_group_table
        if name not in table:
            check_name(name, "a group's name")
            check_room(len(table), self.config.groups_max, "groups")

    def _may_create(self, name: str) -> bool:
        is_system = names.is_system_consumer_group(name)
        if not (self.config.auto_create_group or is_system):
            return False
        if self.config.profile < GROUP_NAMES_CHECKED:
            return True
        return broker_refuses_group(name) is None

    def _changed(self, name: str, now_ms: int) -> None:
        self.data_version = self.data_version.next(now_ms)
        put = self.subscription_group_table.part([name])
        change = TableChange[SubscriptionGroupConfig](
            data_version=self.data_version, put=put, removed=[] if put else [name]
        )
        self._document.save(change, must_last=False)

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

    def _whole(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            subscription_group_table=self.subscription_group_table,
            data_version=self.data_version,
            forbidden_table=self._forbidden,
        )


def _with_defaults(names: Iterable[str]) -> TextTable[SubscriptionGroupConfig]:
    return TextTable((name, SubscriptionGroupConfig(group_name=name)) for name in names)

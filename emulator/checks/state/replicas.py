"""Masters and their slaves: how far each slave has its master's log, by what both noted.

A slave is a node with the name of its master and a number: ``broker-a-1``.  Its log grows with
``LogCopied`` and may lose its end with its process or its power, as any log.

A master that loses the end of its log writes other messages at the same positions.  A slave that
has the old ones never removes them: from there on its log is another one.  RocketMQ believes what
such a slave reports, so positions beyond that point prove nothing; ``differs_from`` has it.

Controllers may elect a slave: then its log is the master's, and the old master's is that of a
slave, from ``broker_roles``.  Whatever another log has beyond the elected one is not the master's,
and its broker truncates it before it copies.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.checks.state.broker_roles import SLAVE, ElectedMasters, Move
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerReset,
    BrokerRoleChanged,
    LogCopied,
    LogFlushed,
    LogRecovered,
    LogTruncated,
    MasterConnected,
    MasterDisconnected,
    MessageStored,
    MetadataSynced,
    PowerLost,
    SlaveConnected,
    SlaveDisconnected,
    StoreOpened,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.facts.replication import NO_COMMON_EPOCH

CALL_US_MAX = 3_000_000  # of a copy of a table (BrokerOuterAPI), and of a consumer's query
WRITTEN_US = 25_000_000  # a master's tables are on its disk after that time, at the latest


class SlaveLog(msgspec.Struct):
    """The log of one slave; times are ``mono_us``."""

    node: str
    master: str
    end: int = 0  # in bytes
    flushed: int = 0  # its power takes nothing before that
    differs_from: int | None = None  # the position from which it is not its master's log
    differs_us: int = 0  # since when
    connected_us: int = 0  # when it last connected to its master
    is_foreign: bool = False  # no epoch of its log is one of its master's: it copies nothing
    lost_us: int = 0  # when it last lost its end
    was_recovered: bool = False  # by the process that is starting
    copied_us: dict[str, int] = {}  # by table of its master: it knows the table of then
    own_us: int = 0  # the same, from when it was the master itself

    def knows_to_us(self, table: str) -> int:
        """Up to when it knows the changes of its master's *table*."""
        return self.copied_us.get(table, self.own_us)

    @property
    def common_end(self) -> int:
        """The end of the part that it has in common with its master's log."""
        return self.end if self.differs_from is None else min(self.end, self.differs_from)

    def differs(self, position: int, at_us: int) -> None:
        """From *position* on it is not its master's log any more."""
        self.differs_from, self.differs_us = position, at_us

    def cut(self, end: int, at_us: int) -> None:
        """The log ends at *end* now; if it is shorter than before, it has lost its end."""
        if end < self.end:
            self.lost_us = at_us
        self.end = end
        self.flushed = min(self.flushed, end)
        if self.differs_from is not None and end <= self.differs_from:
            self.differs_from = None


class MasterLog(msgspec.Struct):
    """The log of a master that has, or had, a slave; times are ``mono_us``."""

    node: str
    end: int = 0  # in bytes
    flushed: int = 0  # up to there
    slaves: dict[str, SlaveLog] = {}
    connected: dict[str, int] = {}  # addresses of slaves: since when
    changed_us: int = 0  # when a slave last connected or went
    kept: int = 0  # by the last election: how far the elected log is that of the former master
    lost_us: int = 0  # when the log that was elected had last lost its end, as that of a slave
    stored_us: int = 0  # when it last stored a message
    elected: SlaveLog | None = None  # the last one that became the master
    elected_us: int = 0  # and when
    kept_to: int = 0  # its end when it last lost what was behind
    cut_us: int = 0  # and when
    opened_us: int = 0  # when it last started again
    wrote_tables_us: int = 0  # changes before it were on its disk then, at the latest
    reported_beyond: int = 0  # the highest report beyond its log, since its process began

    def holders(self, end: int) -> int:
        """How many slaves have this log up to *end*."""
        return sum(slave.common_end >= end for slave in self.slaves.values())

    @property
    def copied_to(self) -> int:
        """The end of the longest copy."""
        return max((slave.common_end for slave in self.slaves.values()), default=0)

    @property
    def flushed_by_all(self) -> int:
        """The end of the shortest copy, of what slaves cannot lose with their power."""
        slaves = self.slaves.values()
        return min((min(slave.common_end, slave.flushed) for slave in slaves), default=0)

    @property
    def is_behind(self) -> bool:
        """Whether a slave that has more log is connected: it is sent heartbeats only.

        Upstream: AutoSwitchHAConnection's writer, which finds no bytes at that position.
        """
        return bool(self.connected) and self.reported_beyond > self.end

    def cut(self, end: int, at_us: int) -> None:
        """The log ends at *end* now; slaves that have more have another log from there on."""
        if end < self.end:
            self.kept_to, self.cut_us = end, at_us
            for slave in self.slaves.values():
                if slave.common_end > end:
                    slave.differs(end, at_us)
        self.end = end
        self.flushed = min(self.flushed, end)


class MastersAndSlaves:
    """All masters that have slaves, and these, up to now."""

    def __init__(self, roles: ElectedMasters | None = None) -> None:
        self._roles = ElectedMasters() if roles is None else roles
        self.masters: dict[str, MasterLog] = {}
        self.slaves: dict[str, SlaveLog] = {}
        self._ends: dict[str, int] = {}  # of the log of each node that stored messages

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageStored: self._stored,
            MasterConnected: self._master_connected,
            MasterDisconnected: self._master_disconnected,
            SlaveConnected: self._slave_connected,
            SlaveDisconnected: self._slave_disconnected,
            LogCopied: self._copied,
            MetadataSynced: self._synced,
            BrokerRoleChanged: self._role_changed,
            LogTruncated: self._truncated,
            LogFlushed: self._flushed,
            LogRecovered: self._recovered,
            StoreOpened: self._store_opened,
            PowerLost: self._power_lost,
            BrokerReset: self._reset,
        }

    def of(self, broker: str) -> MasterLog | None:
        """The master with the broker name *broker*, if it ever had a slave."""
        return self.masters.get(broker)

    def moved(self) -> tuple[Move, MasterLog] | None:
        """The election that the entry being read is, and the log of its master, if it is one."""
        move = self._roles.move
        return None if move is None else (move, self.masters[move.name])

    def may_move(self, broker: str) -> bool:
        """Whether controllers elect the master of the name *broker*."""
        return broker in self._roles.masters

    def may_be_elected(self, node: str) -> bool:
        """Whether *node* is not the master of its name now, and controllers may elect it."""
        match = SLAVE.fullmatch(node)
        return match is not None and self.may_move(match[1])

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        end = fact.position + fact.size_bytes
        self._ends[entry.node] = end
        if (master := self.masters.get(entry.node)) is not None:
            master.end, master.stored_us = max(master.end, end), entry.mono_us

    def _master(self, node: str) -> MasterLog:
        found = self.masters.get(node)
        if found is None:
            found = self.masters[node] = MasterLog(node, self._ends.get(node, 0))
        return found

    def _slave(self, node: str) -> SlaveLog | None:
        """The slave *node*; None if its name is not that of a slave."""
        if (found := self.slaves.get(node)) is None and (match := SLAVE.fullmatch(node)):
            master = self._master(match[1])
            found = self.slaves[node] = master.slaves[node] = SlaveLog(node, match[1])
        return found

    # Elections ----------------------------------------------------------------------------

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """An elected slave's log is the master's now, and the master's log that of a slave."""
        if (move := self._roles.move) is None:
            return
        master = self._master(move.name)
        elected = self.slaves.pop(move.slave, None) or SlaveLog(move.slave, move.name)
        master.slaves.pop(move.slave, None)
        left = SlaveLog(move.left, move.name, master.end, master.flushed)
        left.own_us = master.stored_us - WRITTEN_US  # it may have ended soon after
        master.elected, master.elected_us = elected, entry.mono_us
        self.slaves[move.left] = master.slaves[move.left] = left
        master.connected.clear()
        master.changed_us, master.reported_beyond = entry.mono_us, 0
        master.opened_us = 0
        master.kept, master.lost_us = elected.common_end, elected.lost_us
        master.kept_to, master.cut_us = master.kept, entry.mono_us
        for slave in master.slaves.values():
            slave.differs_from = None
            if slave.end > master.kept:
                slave.differs(master.kept, entry.mono_us)
        master.end, master.flushed = elected.end, elected.flushed
        self._ends[move.name] = elected.end

    def _truncated(self, fact: LogTruncated, entry: Entry) -> None:
        self._cut(entry, fact.position)

    # At masters ---------------------------------------------------------------------------

    def _slave_connected(self, fact: SlaveConnected, entry: Entry) -> None:
        master = self._master(entry.node)
        master.connected[fact.address] = master.changed_us = entry.mono_us
        if fact.reported > master.end:
            master.reported_beyond = max(master.reported_beyond, fact.reported)

    def _slave_disconnected(self, fact: SlaveDisconnected, entry: Entry) -> None:
        master = self._master(entry.node)
        master.connected.pop(fact.address, None)
        master.changed_us = entry.mono_us

    # At slaves ----------------------------------------------------------------------------

    def _master_connected(self, fact: MasterConnected, entry: Entry) -> None:
        if (slave := self._slave(entry.node)) is not None:
            slave.cut(fact.end_position, entry.mono_us)
            slave.connected_us = entry.mono_us

    def _master_disconnected(self, fact: MasterDisconnected, entry: Entry) -> None:
        if (slave := self._slave(entry.node)) is not None:
            slave.is_foreign = fact.reason == NO_COMMON_EPOCH

    def _copied(self, fact: LogCopied, entry: Entry) -> None:
        """Bytes that were under way when their master lost them are not in its log."""
        if (slave := self._slave(entry.node)) is None:
            return
        slave.is_foreign = False
        slave.end, master = fact.position, self.masters[slave.master]
        was_under_way = slave.connected_us < master.cut_us and slave.end > master.kept_to
        if was_under_way and slave.differs_from is None:
            slave.differs(master.kept_to, master.cut_us)

    def _synced(self, fact: MetadataSynced, entry: Entry) -> None:
        """It has the table that its master had when this answered.

        A master that started again has a table of before its end, and the slave takes that, older
        as it is.  Upstream: SlaveSynchronize.syncDelayOffset, ConfigManager.load.
        """
        if (slave := self._slave(entry.node)) is None:
            return
        known_us, master = entry.mono_us - CALL_US_MAX, self.masters[slave.master]
        if master.opened_us and entry.mono_us - master.opened_us <= WRITTEN_US:
            known_us = min(known_us, master.wrote_tables_us)
        slave.copied_us[fact.table] = known_us

    # At both ------------------------------------------------------------------------------

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        if (log := self.masters.get(entry.node) or self.slaves.get(entry.node)) is not None:
            log.flushed = fact.position

    def _recovered(self, fact: LogRecovered, entry: Entry) -> None:
        self._cut(entry, fact.end_position)
        if (slave := self.slaves.get(entry.node)) is not None:
            slave.was_recovered = True

    def _store_opened(self, fact: StoreOpened, entry: Entry) -> None:
        if (master := self.masters.get(entry.node)) is not None:
            master.connected.clear()
            master.changed_us = entry.mono_us
            master.reported_beyond = 0
            if self._roles.move is None:  # a process, and no election
                master.opened_us = entry.mono_us
                master.wrote_tables_us = master.stored_us - WRITTEN_US
        if (slave := self.slaves.get(entry.node)) is not None:
            if not (fact.outlives_process or slave.was_recovered):
                slave.cut(0, entry.mono_us)
            slave.was_recovered = False

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        """With controllers a slave may be elected, with all of the log: wait for the next start.

        Until then it may still append what its kernel has of the master's bytes.  Its files of
        tables may have gone back to an older content.
        """
        if (slave := self.slaves.get(entry.node)) is not None:
            slave.copied_us.clear()
            slave.own_us = 0
        if not (self.may_move(entry.node) and entry.node in self.masters):
            self._cut(entry, fact.kept_position)

    def _reset(self, fact: BrokerReset, entry: Entry) -> None:
        self._cut(entry, 0)

    def _cut(self, entry: Entry, end: int) -> None:
        self._ends[entry.node] = end
        if (master := self.masters.get(entry.node)) is not None:
            master.cut(end, entry.mono_us)
        if (slave := self.slaves.get(entry.node)) is not None:
            slave.cut(end, entry.mono_us)

"""The logs of slaves beside that of their master: equal, without gaps, and never longer.

Each log has the ends of its messages singly, until all slaves have them; a slave counts what it
copies, so that the two numbers can be compared at any position.

After a loss of power a master's epochs may reach beyond the end of its log.  A slave with more log
truncates nothing then, and its log differs for good once the master has grown past its end.
Upstream: EpochFileCache.findConsistentPoint, which takes an epoch to end where the next begins.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from rocketmq_emulator.checks.state.broker_roles import name_of
from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, key_of
from rocketmq_emulator.checks.state.replicas import MasterLog, SlaveLog
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerReset,
    BrokerRoleChanged,
    EpochBegun,
    EpochsCompared,
    LogCopied,
    LogRecovered,
    LogTruncated,
    MasterConnected,
    MessageStored,
    PowerLost,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

NEVER = 1 << 62  # a position that no log reaches
ENDS_MAX = 10_000  # of messages of one master that are kept singly


class SlaveLogsAgree(Checker):
    """HAService.HAClient.dispatchReadRequest (4.x), DefaultHAClient (5.x)."""

    name = "slave_logs"
    rule = (
        "a slave's log is the beginning of its master's: it grows without gaps, never beyond it, "
        "and has as many messages; after an election it is truncated to that before it grows"
    )
    metrics = (
        Metric(
            "other_log_bytes",
            "bytes",
            "in the log of a slave beyond the point at which its master lost the end of its own",
            "node",
            "max",
        ),
    )
    needs = (LogCopied,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._ends: dict[str, _LogEnds] = {}  # by node: where each message of its log ends
        self._copies: dict[str, _Copy] = {}
        self._differing: set[str] = set()  # slaves of which it was reported
        self._starts: dict[tuple[str, int], int] = {}  # by broker name and epoch: its position
        self._untruncated: set[str] = set()  # slaves whose master's epochs hide the difference

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageStored: self._stored,
            LogCopied: self._copied,
            MasterConnected: self._connected,
            LogRecovered: self._recovered,
            LogTruncated: self._truncated,
            EpochBegun: self._epoch_began,
            EpochsCompared: self._epochs_compared,
            BrokerRoleChanged: self._role_changed,
            PowerLost: self._power_lost,
            BrokerReset: self._reset,
        }

    def end(self) -> None:
        """Report copies beyond a master's log that it did not note later either."""
        for node, copy in self._copies.items():
            if copy.beyond is not None and not self._is_written(node, copy):
                self._report_beyond(node, copy)

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        ends = self._ends.get(entry.node)
        if ends is None:
            ends = self._ends[entry.node] = _LogEnds()
        ends.add(fact.position + fact.size_bytes, self.cluster.replicas.of(entry.node))

    def _copied(self, fact: LogCopied, entry: Entry) -> None:
        slave = self.cluster.replicas.slaves.get(entry.node)
        if slave is None:
            return
        is_new = slave.connected_us > slave.differs_us  # else the bytes were under way
        may_move = self.cluster.replicas.may_move(slave.master)
        if slave.differs_from is not None and is_new and may_move:
            self._goes_on_differently(slave, fact, entry)
        copy = self._copies.setdefault(entry.node, _Copy())
        own = self.cluster.stores.get(entry.node)
        if own is not None and own.awaits_sync_state_set:
            copy.message_count = None  # only those up to the confirm offset can be read
        self.count_tried()
        begins = fact.position - fact.copied_bytes
        if copy.end not in (None, 0, begins):
            self.report_violation(
                f"{entry.node} appended bytes {begins:,} to {fact.position:,} to a log that ends "
                f"at {copy.end:,}",
                entry,
            )
        if begins and not copy.end:
            copy.message_count = None  # it lacks the files before: an empty one gets the last file
        copy.end = fact.position
        if copy.message_count is not None:
            copy.message_count += fact.message_count
        if slave.differs_from is not None:
            self._measure(entry.node, slave.end - slave.differs_from)
            copy.message_count = None  # its messages are not its master's
            return
        master = self.cluster.replicas.of(slave.master)
        if master is not None and fact.position > master.end and copy.beyond is None:
            copy.beyond = fact.position, key_of(entry)
        self._compare_counts(slave.master, copy, entry)

    def _goes_on_differently(self, slave: SlaveLog, fact: LogCopied, entry: Entry) -> None:
        """With controllers a slave truncates its log before it copies: so epochs are compared.

        Upstream: AutoSwitchHAClient.doTruncate.
        """
        if slave.node not in self._differing | self._untruncated:
            self._differing.add(slave.node)
            self.report_violation(
                f"{slave.node} appended bytes of its master at {fact.position:,}; from byte "
                f"{slave.differs_from:,} on its log is not its master's, and was not truncated",
                entry,
            )

    def _epoch_began(self, fact: EpochBegun, entry: Entry) -> None:
        self._starts[name_of(entry.node), fact.epoch] = fact.position

    def _epochs_compared(self, fact: EpochsCompared, entry: Entry) -> None:
        """Note a slave whose log ends before the epoch after the last common one begins."""
        self._untruncated.discard(entry.node)
        common = max(set(fact.epochs) & set(fact.master_epochs), default=0)
        later = min((each for each in fact.master_epochs if each > common), default=0)
        start = self._starts.get((name_of(entry.node), later), 0)
        if common and later and start >= fact.position:
            self._untruncated.add(entry.node)

    def _measure(self, node: str, count: int) -> None:
        known = self.measured.get(f"other_log_bytes.{node}", 0.0)
        self.set_metric("other_log_bytes", max(known, count), node)

    def _compare_counts(self, master: str, copy: _Copy, entry: Entry) -> None:
        ends, count = self._ends.get(master, _LogEnds()), copy.message_count
        if count is None or copy.beyond is not None or copy.end is None:
            return
        has = ends.count_to(copy.end)
        if has not in (count, None):
            copy.message_count = None  # said once
            self.report_violation(
                f"{entry.node} has {count} messages up to byte {copy.end:,}, and its master {has}",
                entry,
            )

    def _is_written(self, node: str, copy: _Copy) -> bool:
        """Whether its master had these bytes after all: its journal lacked its last lines."""
        assert copy.beyond is not None
        slave = self.cluster.replicas.slaves[node]
        master = self.cluster.replicas.of(slave.master)
        return master is not None and master.end >= copy.beyond[0]

    def _report_beyond(self, node: str, copy: _Copy) -> None:
        assert copy.beyond is not None
        position, entry = copy.beyond
        self.report_violation(
            f"{node} has bytes up to {position:,} that its master never wrote", entry
        )

    def _connected(self, fact: MasterConnected, entry: Entry) -> None:
        copy = self._copies.setdefault(entry.node, _Copy())
        copy.end = fact.end_position
        if not copy.end:
            copy.message_count = 0  # it begins anew

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """The elected slave's log is the master's; the old master's is a copy from now on."""
        if (moved := self.cluster.replicas.moved()) is None:
            return
        move, master = moved
        ends = self._ends.setdefault(move.name, _LogEnds())
        left = master.slaves[move.left]
        self._copies.pop(move.slave, None)
        store = self.cluster.stores.get(move.name)
        count = None if store is not None and store.awaits_sync_state_set else ends.count
        self._copies[move.left] = _Copy(left.end, count)
        ends.cut(master.kept)
        if master.kept < master.end:
            ends.before_end = NEVER  # it goes on with messages of which nothing is known

    def _truncated(self, fact: LogTruncated, entry: Entry) -> None:
        self._cut(entry.node, fact.position)
        if (copy := self._copies.get(entry.node)) is not None:
            copy.message_count = None  # it may have had messages that its master never had

    def _recovered(self, fact: LogRecovered, entry: Entry) -> None:
        self._cut(entry.node, fact.end_position)
        master = self.cluster.replicas.of(entry.node)
        if (
            master is not None
            and fact.message_count > self._ends.get(entry.node, _LogEnds()).count
        ):
            self._forget_counts(master)  # it was killed before it noted all that it had stored
        copy = self._copies.get(entry.node)
        if copy is not None and copy.message_count is not None:
            copy.message_count = None if fact.min_position else fact.message_count

    def _forget_counts(self, master: MasterLog) -> None:
        for node in master.slaves:
            if (copy := self._copies.get(node)) is not None:
                copy.message_count = None

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        if not self.cluster.replicas.may_move(entry.node):  # a slave may be elected that has more
            self._cut(entry.node, fact.kept_position)

    def _reset(self, fact: BrokerReset, entry: Entry) -> None:
        self._cut(entry.node, 0)
        self._copies.pop(entry.node, None)

    def _cut(self, node: str, end: int) -> None:
        if (ends := self._ends.get(node)) is not None:
            ends.cut(end)
        if (copy := self._copies.get(node)) is not None:
            copy.end = end


class _LogEnds(msgspec.Struct):
    """Where the messages of a log end: singly since a slave is known, before that their number."""

    before: int = 0  # messages
    before_end: int = 0  # of the last of these
    ends: list[int] = []

    @property
    def count(self) -> int:
        """How many messages the log has."""
        return self.before + len(self.ends)

    def add(self, end: int, master: MasterLog | None) -> None:
        """A message ends at *end*; forget, one by one, what all slaves have."""
        if master is None:
            self.before, self.before_end = self.before + 1, end
            return
        self.ends.append(end)
        if len(self.ends) > ENDS_MAX:
            copied = min((slave.common_end for slave in master.slaves.values()), default=0)
            if count := bisect_right(self.ends, copied):
                self.before += count
                self.before_end = self.ends[count - 1]
                del self.ends[:count]

    def count_to(self, end: int) -> int | None:
        """How many messages end at *end* or before; None: not known."""
        return None if end < self.before_end else self.before + bisect_right(self.ends, end)

    def cut(self, end: int) -> None:
        """The log ends at *end* now."""
        if end < self.before_end:
            self.before_end = NEVER  # how many are left is not known
        del self.ends[bisect_right(self.ends, end) :]


class _Copy(msgspec.Struct):
    end: int | None = None  # None: not known
    message_count: int | None = 0  # None: not comparable
    beyond: tuple[int, EntryKey] | None = None  # the first copy beyond the master's known end

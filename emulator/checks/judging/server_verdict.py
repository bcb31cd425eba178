"""The verdict on SDK clients: which rules each broke, when first, and the frames that show it.

    judge = SdkJudge()
    judge.take(entries)      # may be repeated; returns the new violations
    judge.verdict()

It keeps the latest facts, at most ``FRAMES_MAX``, to show the frames behind a violation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from rocketmq_emulator.checks.judging.completeness import Completeness
from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.judging.reading import Skipped
from rocketmq_emulator.checks.servers.frames import FRAMES, SeenFrame, frame_of
from rocketmq_emulator.checks.servers.table import SDK_MONITORS
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.facts import Fact, MemberJoined
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.versions import version_desc

FEED_SLACK_US = 1_000_000
FRAMES_MAX = 200_000  # kept to show them
CONSUME_TYPES = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}


class SdkClient(msgspec.Struct, kw_only=True):
    """A consumer that was seen; *peers* are its addresses at brokers."""

    client: str
    language: str
    version: str  # of RocketMQ, from its heartbeat; some SDKs send the Java client's
    groups: dict[str, str] = {}  # group: consume type and message model
    peers: dict[str, str] = {}  # address: broker
    request_count: int = 0  # requests that facts record


class BrokenRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a client broke *count* times; *what* describes the first time."""

    client: str
    monitor: str
    invariants: tuple[int, ...]
    rule: str
    what: str
    mono_us: int
    count: int
    frames: tuple[SeenFrame, ...]


class SdkVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result.  *not_judged*: monitors without evidence, and why.

    *incomplete*: the gaps of the journals; *doubtful_count* violations may come from these, and
    are not in *broken*.
    """

    clients: tuple[SdkClient, ...]
    broken: tuple[BrokenRule, ...]
    judged: tuple[str, ...]
    not_judged: dict[str, str]
    fact_count: int
    seconds: float
    incomplete: tuple[str, ...] = ()
    doubtful_count: int = 0

    @property
    def is_good(self) -> bool:
        """True if no rule was broken, the journals have no gap, and some monitors judged."""
        return not self.broken and not self.incomplete and bool(self.judged)


def kinds_to_follow() -> tuple[str, ...]:
    """The kinds of facts that the monitors read, for the subscription to a cluster's feed."""
    judging = Judging(tuple(SDK_MONITORS.values()))
    kinds: set[type[Fact]] = {*judging.cluster.table(), *FRAMES}
    for checker in judging.checkers:
        kinds.update(checker.table())
    return tuple(sorted(kind.__name__ for kind in kinds))


class SdkJudge:
    """A judgement of clients in progress; *skipped* counts lines that the reader left out."""

    def __init__(self, skipped: Skipped | None = None) -> None:
        self._judging = Judging(
            tuple(SDK_MONITORS.values()), skipped=skipped, completeness=of_servers_only
        )
        self._doubtful_count = 0
        self._clients: dict[str, SdkClient] = {}
        self._at: dict[tuple[str, str], SdkClient] = {}  # broker, peer
        self._frames: OrderedDict[EntryKey, Entry] = OrderedDict()
        self._counts: dict[tuple[str, str], int] = {}  # client, monitor
        self._seen: dict[str, int] = {}  # violations of each monitor that were handled
        self._frames_by_violation: dict[Violation, tuple[SeenFrame, ...]] = {}
        self._first_us = self._last_us = 0
        self._count = 0

    @property
    def client_count(self) -> int:
        """The number of consumers seen."""
        return len(self._clients)

    def take(self, entries: Iterable[Entry]) -> list[Violation]:
        """New violations in *entries*: the first of each rule by each client."""
        self._judging.take(self._watched(entries))
        new = []
        for violation in self._new_violations():
            place = violation.node, violation.checker
            self._counts[place] = self._counts.get(place, 0) + 1
            if self._counts[place] == 1:
                self._frames_by_violation[violation] = self._frames_of(violation)
                new.append(violation)
        return new

    def verdict(self) -> SdkVerdict:
        """The verdict on all entries taken; do not call ``take`` after it."""
        judgement = self._judging.end()
        self.take(())  # violations that show only at the end
        sure = [each for each in self._frames_by_violation if not self._is_doubtful(each)]
        self._doubtful_count += len(self._frames_by_violation) - len(sure)
        broken = tuple(self._broken(violation) for violation in sorted(sure, key=_time_of))
        not_judged = {**judgement.not_judged, **judgement.raised}
        return SdkVerdict(
            clients=tuple(self._clients.values()),
            broken=broken,
            judged=tuple(name for name in SDK_MONITORS if name not in not_judged),
            not_judged=not_judged,
            fact_count=judgement.fact_count,
            seconds=(self._last_us - self._first_us) / 1_000_000,
            incomplete=judgement.incomplete,
            doubtful_count=self._doubtful_count,
        )

    def _watched(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self._first_us = self._first_us or entry.mono_us
            self._last_us = max(self._last_us, entry.mono_us)
            fact = entry.fact
            if type(fact) in FRAMES:
                self._frames[EntryKey(entry.mono_us, entry.node, entry.seq)] = entry
                if len(self._frames) > FRAMES_MAX:
                    self._frames.popitem(last=False)
                if isinstance(fact, MemberJoined):
                    self._joined(fact, entry.node)
                elif (known := self._at.get((entry.node, getattr(fact, "peer", "")))) is not None:
                    known.request_count += 1
            yield entry

    def _joined(self, fact: MemberJoined, broker: str) -> None:
        known = self._clients.get(fact.client)
        if known is None:
            version = version_desc(fact.client_version)
            known = SdkClient(client=fact.client, language=fact.language, version=version)
            self._clients[fact.client] = known
        how = (CONSUME_TYPES.get(fact.consume_type, fact.consume_type), fact.message_model)
        known.groups[fact.group] = " ".join(each.lower() for each in how if each)
        known.peers[fact.peer] = broker
        self._at[broker, fact.peer] = known

    def _new_violations(self) -> Iterator[Violation]:
        for checker in self._judging.checkers:
            seen = self._seen.get(checker.name, 0)
            self._seen[checker.name] = len(checker.violations)
            for violation in checker.violations[seen:]:
                if self._judging.is_doubtful(checker, violation):
                    self._doubtful_count += 1
                    continue
                yield msgspec.structs.replace(violation, node=self._client_of(violation))

    def _is_doubtful(self, violation: Violation) -> bool:
        """Whether a gap may explain it; gaps found later count, as a node without a journal."""
        return any(
            self._judging.is_doubtful(checker, violation)
            for checker in self._judging.checkers
            if checker.name == violation.checker
        )

    def _client_of(self, violation: Violation) -> str:
        """The client's id if facts name it; else the server that saw it."""
        if violation.node in self._clients:
            return violation.node
        for key in reversed(violation.entries):
            entry = self._frames.get(key)
            known = entry and self._at.get((entry.node, getattr(entry.fact, "peer", "")))
            if known:
                return known.client
        return violation.node

    def _frames_of(self, violation: Violation) -> tuple[SeenFrame, ...]:
        found = (self._frames.get(key) for key in violation.entries)
        return tuple(frame_of(entry) for entry in found if entry is not None)

    def _broken(self, violation: Violation) -> BrokenRule:
        return BrokenRule(
            client=violation.node,
            monitor=violation.checker,
            invariants=SDK_MONITORS[violation.checker].invariants,
            rule=violation.rule,
            what=violation.what,
            mono_us=violation.mono_us,
            count=self._counts[violation.node, violation.checker],
            frames=self._frames_by_violation[violation],
        )


def of_servers_only(cluster: ClusterState) -> Completeness:
    """Completeness for SDK clients, which have no journal; servers' facts may be reordered.

    Facts of two servers come over two connections.
    """
    return Completeness(cluster, expects_clients=False, slack_us=FEED_SLACK_US)


def _time_of(violation: Violation) -> tuple[int, str]:
    return violation.mono_us, violation.checker

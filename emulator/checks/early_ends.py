"""Journals that end before their nodes: others still name what the node did, and it notes nothing.

The tail of a file that is cut off at the end of a line leaves no torn line and no missing number.
A broker has acknowledged a message and not noted it, a member has been given messages, or has
committed them, and noted none, a producer's message was stored and its send never ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.checks.checker import key_of
from emulator.checks.folding import Table
from emulator.checks.progress import Progress
from emulator.checks.scene import Scene
from emulator.checks.stored_messages import KEY_CHARS, PROCESS_CHARS
from emulator.checks.violation import Gap
from emulator.facts import MemberJoined, MessageSent, OffsetCommitted, PullAnswered
from emulator.journal import Entry
from protocol.names import RETRY_GROUP_TOPIC_PREFIX

SETTLING_US = 5_000_000  # a broker notes a message before its producer does
WRITTEN_US = 10_000_000  # offsets are written every 5 s
LISTENER_US = 65_000_000  # in which a member notes what it was given


class EarlyEnds:
    """Which nodes others name, and when last."""

    def __init__(self, scene: Scene, progress: Progress) -> None:
        self._scene = scene
        self._progress = progress
        self._acked: dict[str, Entry] = {}  # by broker: the last acknowledgement
        self._answered: dict[tuple[str, str], Entry] = {}  # by broker and address: with messages
        self._went_on: dict[tuple[str, str], Entry] = {}  # by broker and address: with a commit
        self._clients: dict[tuple[str, str], str] = {}  # by broker and address
        self._producers: dict[str, str] = {}  # by the process in unique keys: node

    def table(self) -> Table:
        """What it reads."""
        return {
            MessageSent: self._sent,
            PullAnswered: self._pulled,
            OffsetCommitted: self._committed,
            MemberJoined: self._joined,
        }

    def gaps(self, last: Mapping[str, Entry]) -> Iterator[Gap]:
        """Of nodes whose *last* entries are too old."""
        for broker, named in self._acked.items():
            nodes = broker, named.node
            if self._is_behind(last.get(broker), nodes, named.mono_us, SETTLING_US):
                yield _gap(last[broker], f"{named.node} names it", named.mono_us)
        for (broker, peer), named in self._answered.items():
            node = self._node_of(self._clients.get((broker, peer), ""))
            if self._is_behind(last.get(node), (node, broker), named.mono_us, LISTENER_US):
                yield _gap(last[node], f"{broker} answers its pulls", named.mono_us)
        for (broker, peer), named in self._went_on.items():
            node = self._node_of(self._clients.get((broker, peer), ""), "push")
            if self._is_behind(last.get(node), (node, broker), named.mono_us, WRITTEN_US):
                yield _gap(last[node], f"goes on to commit at {broker}", named.mono_us)
        yield from self._unanswered(last)

    def _unanswered(self, last: Mapping[str, Entry]) -> Iterator[Gap]:
        """Producers whose sends were stored later than anything that they note."""
        stored: dict[str, tuple[int, str]] = {}
        for key, places in self._progress.messages.chains.open_sends.items():
            node = self._producers.get(key[:PROCESS_CHARS], "")
            if len(key) != KEY_CHARS or not node:
                continue
            for records, offset in places:
                if records.place == "topic" and (at_us := records.stored_us(offset)):
                    stored[node] = max(stored.get(node, (0, "")), (at_us, records.queue.broker))
        for node, (at_us, broker) in stored.items():
            if self._is_behind(last.get(node), (node, broker), at_us, SETTLING_US):
                yield _gap(last[node], f"{broker} stores its messages", at_us)

    def _is_behind(
        self, last: Entry | None, nodes: tuple[str, str], named_us: int, most_us: int
    ) -> bool:
        """It notes nothing for so long, and no fault of *nodes* held up what names it."""
        if last is None or named_us - last.mono_us <= most_us or self._scene.is_gone(last.node):
            return False
        return not self._scene.touched(nodes, last.mono_us, named_us)

    def _node_of(self, client: str, kind: str = "") -> str:
        """Of the member that runs, if it is of that kind of consumer; "": of any."""
        for seats in self._scene.seats.values():
            for seat in seats:
                is_its = seat.started.client == client and seat.lives
                if is_its and kind in ("", seat.started.consumer_kind):
                    return seat.node
        return ""

    # Who is named -------------------------------------------------------------------------

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        self._acked[fact.queue.broker] = entry
        process = fact.uniq_key[:PROCESS_CHARS]
        is_own = not fact.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)  # a retry keeps its key
        if is_own and process not in self._producers:
            self._producers[process] = entry.node

    def _pulled(self, fact: PullAnswered, entry: Entry) -> None:
        if fact.message_count:
            self._answered[entry.node, fact.peer] = entry

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        passes = self._progress.reading.passes
        if passes and passes[-1][1] == key_of(entry):
            self._went_on[entry.node, fact.peer] = entry  # of what nobody notes to have consumed

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._clients[entry.node, fact.peer] = fact.client


def _gap(last: Entry, why: str, named_us: int) -> Gap:
    text = f"the journal of {last.node} ends at {last.mono_us / 1e6:.3f} s, and {why} at "
    return Gap(f"{text}{named_us / 1e6:.3f} s: what it noted later is missing", last.mono_us)

"""Several controllers that agree on one log of events: a small Raft.

One controller leads.  It appends an event to its log and sends it to the others; the event is
committed when a majority has it on disk, and only then is its request answered.  A controller that
does not hear of a leader asks the others for their votes in a new term; it gets one only from
those whose log does not go further than its own, and each votes once a term.  So every new leader
has all committed events.  It first commits an entry without an event: before that it does not know
which of its last entries are committed.

A leader that is not heard by a majority gives up, as DLedger's does.  Members never change.

This is a value: time and chance are arguments, ``send`` and the others are outlets.  The messages
between the controllers are ours; upstream's are those of DLedger or of JRaft.

Upstream: DLedgerController, DLedgerLeaderElector.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from rocketmq_emulator.controller.state.events import AnyEvent, TablesSaved
from rocketmq_emulator.controller.state.group_log import GroupEntry, GroupLog, Snapshot, Vote
from rocketmq_emulator.disk.port import WRITE_ERRORS

HEARTBEAT_MS = 2_000  # DLedgerConfig.heartBeatTimeIntervalMs
SILENCE_MS_MAX = 6_000  # maxHeartBeatLeak (3) heartbeats: then a leader is gone
VOTE_MS_MIN, VOTE_MS_MAX = 300, 1_000  # DLedgerConfig.minVoteIntervalMs, maxVoteIntervalMs
ENTRIES_MAX = 100  # ours: in one message

Role: TypeAlias = Literal["follower", "candidate", "leader"]


class VoteRequest(msgspec.Struct, frozen=True, tag=True):
    """*candidate* wants to lead in *term*; its log ends so."""

    term: int
    candidate: str
    last_index: int
    last_term: int


class VoteReply(msgspec.Struct, frozen=True):
    """Whether the vote was given; a larger *term* ends the candidate's."""

    term: int
    is_granted: bool


class AppendRequest(msgspec.Struct, frozen=True, tag=True):
    """Entries that follow *before_index*; the snapshot comes first to those that lack more."""

    term: int
    leader: str
    before_index: int
    before_term: int
    entries: list[GroupEntry]
    committed: int
    snapshot: Snapshot | None = None


class AppendReply(msgspec.Struct, frozen=True):
    """Accepted: the logs are equal up to *end*.  Refused: the leader tries from *end* on."""

    term: int
    is_accepted: bool
    end: int


GroupRequest: TypeAlias = VoteRequest | AppendRequest
GroupReply: TypeAlias = VoteReply | AppendReply
_REQUEST: msgspec.json.Decoder[GroupRequest] = msgspec.json.Decoder(GroupRequest)
_APPEND_REPLY = msgspec.json.Decoder(AppendReply)
_VOTE_REPLY = msgspec.json.Decoder(VoteReply)


def decode_group_request(body: bytes) -> GroupRequest:
    """The request in *body*.  Raises ``msgspec.MsgspecError``."""
    return _REQUEST.decode(body)


def decode_group_reply(request: GroupRequest, body: bytes) -> GroupReply:
    """The answer to *request* in *body*.  Raises ``msgspec.MsgspecError``."""
    return (_APPEND_REPLY if isinstance(request, AppendRequest) else _VOTE_REPLY).decode(body)


def _nothing(*_: object) -> None:
    """The default of the outlets."""


class ControllerGroup:
    """The controller *self_id* in a group with *others*.  Raises ``StoreDamaged``.

    Its outlets: ``send(other, request)``, whose answer comes to ``answered`` or ``failed``;
    ``on_committed(index, event)`` for each entry in order; ``on_replaced(tables)`` when a leader
    sent a snapshot; ``on_role_changed()`` when it began or stopped to lead.
    """

    def __init__(
        self,
        self_id: str,
        others: Sequence[str],
        log: GroupLog,
        *,
        rng: random.Random,
        now_ms: int,
    ) -> None:
        self.send: Callable[[str, GroupRequest], object] = _nothing
        self.on_committed: Callable[[int, AnyEvent | None], object] = _nothing
        self.on_replaced: Callable[[TablesSaved], object] = _nothing
        self.on_role_changed: Callable[[], object] = _nothing
        self.self_id = self_id
        self.others = tuple(others)
        self.log = log
        self.role: Role = "follower"
        self.leader = ""  # its id; empty while none is known
        self.committed = log.snapshot.index
        self._rng = rng
        self._majority = (len(others) + 1) // 2 + 1
        self._votes: set[str] = set()
        self._first_own = 0  # the entry of this leader's term that has no event
        self._equal_to: dict[str, int] = {}  # by other, as far as the leader knows
        self._next: dict[str, int] = {}  # the entry that is sent next
        self._asked: dict[str, GroupRequest] = {}  # one request at a time to each
        self._heard_ms: dict[str, int] = {}
        self._due_ms = now_ms + self._vote_ms()  # of an election, or of a heartbeat

    @property
    def term(self) -> int:
        """The latest term that this controller knows of."""
        return self.log.vote.term

    @property
    def may_decide(self) -> bool:
        """Whether it leads, and knows which entries are committed."""
        return self.role == "leader" and self.committed >= self._first_own

    @property
    def next_due_ms(self) -> int:
        """When ``tick`` is to be called."""
        return self._due_ms

    # Time -----------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Do what is due: a heartbeat of the leader, an election of the others."""
        if now_ms < self._due_ms:
            return
        if self.role != "leader":
            self._stand(now_ms)
            return
        heard = sum(now_ms - at_ms <= SILENCE_MS_MAX for at_ms in self._heard_ms.values())
        if 1 + heard < self._majority:
            self._follow(self.term, "", now_ms)
            return
        self._due_ms = now_ms + HEARTBEAT_MS
        self._send_all()

    def _stand(self, now_ms: int) -> None:
        """Ask for votes in a new term."""
        self._due_ms = now_ms + self._vote_ms()
        try:
            self.log.set_vote(Vote(self.term + 1, self.self_id))
        except WRITE_ERRORS:  # a vote that could be forgotten is not given: the next time
            return
        self.role, self.leader, self._votes = "candidate", "", {self.self_id}
        self._asked.clear()
        request = VoteRequest(self.term, self.self_id, self.log.end, self.log.last_term)
        for other in self.others:
            self._ask(other, request)
        self._lead_if_elected(now_ms)

    def _vote_ms(self) -> int:
        return self._rng.randrange(VOTE_MS_MIN, VOTE_MS_MAX)

    # Requests of others: they raise WRITE_ERRORS, and then promise nothing ---------

    def handle(self, request: GroupRequest, now_ms: int) -> GroupReply:
        """Answer a request of either kind."""
        if isinstance(request, AppendRequest):
            return self.append(request, now_ms)
        return self.vote(request, now_ms)

    def vote(self, request: VoteRequest, now_ms: int) -> VoteReply:
        """Vote for a candidate, or not."""
        if request.term > self.term:
            self._follow(request.term, "", now_ms)
        is_behind = (request.last_term, request.last_index) < (self.log.last_term, self.log.end)
        mine = self.log.vote.voted_for
        if request.term < self.term or is_behind or mine not in ("", request.candidate):
            return VoteReply(self.term, is_granted=False)
        self.log.set_vote(Vote(self.term, request.candidate))
        self._due_ms = now_ms + SILENCE_MS_MAX + self._vote_ms()
        return VoteReply(self.term, is_granted=True)

    def append(self, request: AppendRequest, now_ms: int) -> AppendReply:
        """Take entries of the leader, if they follow what is here."""
        if request.term < self.term:
            return AppendReply(self.term, is_accepted=False, end=self.log.end)
        self._follow(request.term, request.leader, now_ms)
        self._due_ms = now_ms + SILENCE_MS_MAX + self._vote_ms()
        if request.snapshot is not None and request.snapshot.index > self.committed:
            self.log.compact(request.snapshot)
            self.committed = request.snapshot.index
            self.on_replaced(request.snapshot.tables)
        before, entries = request.before_index, request.entries
        if (known := self.log.snapshot.index - before) > 0:  # these are committed, and equal
            before, entries = before + known, entries[known:]
        elif self.log.term_at(before) != request.before_term:
            return AppendReply(self.term, is_accepted=False, end=min(self.log.end, before - 1))
        self._store(before, entries)
        end = request.before_index + len(request.entries)
        self._commit(min(request.committed, max(end, self.log.snapshot.index)))
        return AppendReply(self.term, is_accepted=True, end=end)

    def _store(self, before: int, entries: Sequence[GroupEntry]) -> None:
        """Append *entries* after *before*; entries of an older leader there are removed."""
        for place, entry in enumerate(entries):
            index = before + place + 1
            if index > self.log.end:
                self.log.append(entries[place:])
                return
            if self.log.term_at(index) != entry.term:
                assert index > self.committed, "a committed entry never changes"
                self.log.replace_after(index - 1, entries[place:])
                return

    # Answers to our requests ----------------------------------------------------------

    def answered(self, other: str, request: GroupRequest, reply: GroupReply, now_ms: int) -> None:
        """An answer of *other* has come, perhaps late."""
        if self._asked.get(other) is request:
            del self._asked[other]
        if reply.term > self.term:
            with suppress(*WRITE_ERRORS):  # it does not lead any more, in any case
                self._follow(reply.term, "", now_ms)
            return
        if request.term != self.term:
            return
        if isinstance(reply, VoteReply):
            if self.role == "candidate" and reply.is_granted:
                self._votes.add(other)
                self._lead_if_elected(now_ms)
        elif self.role == "leader":
            self._heard_ms[other] = now_ms
            self._appended(other, reply)

    def failed(self, other: str, request: GroupRequest) -> None:
        """No answer came: the next heartbeat tries again."""
        if self._asked.get(other) is request:
            del self._asked[other]

    def _lead_if_elected(self, now_ms: int) -> None:
        if len(self._votes) < self._majority:
            return
        try:
            self.log.append([GroupEntry(self.term)])
        except WRITE_ERRORS:
            return  # it does not lead: somebody stands again
        self.role, self.leader = "leader", self.self_id
        self._first_own = self.log.end
        self._equal_to = dict.fromkeys(self.others, 0)
        self._next = dict.fromkeys(self.others, self.log.end)
        self._heard_ms = dict.fromkeys(self.others, now_ms)
        self._asked.clear()
        self._due_ms = now_ms + HEARTBEAT_MS
        self.on_role_changed()
        self._send_all()
        self._commit_what_a_majority_has()

    def _appended(self, other: str, reply: AppendReply) -> None:
        if reply.is_accepted:
            self._equal_to[other] = max(self._equal_to[other], reply.end)
            self._next[other] = self._equal_to[other] + 1
            self._commit_what_a_majority_has()
            if self.role == "leader" and self._equal_to[other] < self.log.end:
                self._send_to(other)
        else:
            self._next[other] = max(1, min(self._next[other] - 1, reply.end + 1))
            self._send_to(other)

    # The log --------------------------------------------------------------------------

    def propose(self, event: AnyEvent) -> int:
        """Append *event*, and send it to the others; returns its index.  To the leader only.

        It holds once ``committed`` has reached its index.  Raises ``WRITE_ERRORS``.
        """
        assert self.role == "leader", "only the leader proposes"
        self.log.append([GroupEntry(self.term, event)])
        index = self.log.end
        self._send_all()
        self._commit_what_a_majority_has()
        return index

    def compact(self, tables: TablesSaved) -> None:
        """Replace the committed entries, after which the tables are *tables*, by a snapshot.

        Raises ``WRITE_ERRORS``: the entries stay.
        """
        term = self.log.term_at(self.committed)
        assert term is not None, "committed entries are in the log"
        self.log.compact(Snapshot(self.committed, term, tables))

    def _commit_what_a_majority_has(self) -> None:
        """Only entries of this term are counted: older ones are committed with them."""
        ends = sorted((self.log.end, *self._equal_to.values()), reverse=True)
        index = ends[self._majority - 1]
        if index > self.committed and self.log.term_at(index) == self.term:
            self._commit(index)

    def _commit(self, upto: int) -> None:
        while self.committed < upto:
            self.committed += 1
            self.on_committed(self.committed, self.log.entry(self.committed).event)

    # Roles and messages ---------------------------------------------------------------

    def _follow(self, term: int, leader: str, now_ms: int) -> None:
        """Be a follower in *term*; of *leader*, or of nobody yet.

        Raises ``WRITE_ERRORS``: then it follows, but knows nothing of the term.
        """
        was_leader = self.role == "leader"
        if self.role != "follower":
            self.role = "follower"
            self._asked.clear()
            self._due_ms = now_ms + self._vote_ms()
        self.leader = leader
        if was_leader:
            self.on_role_changed()
        if term > self.term:
            self.log.set_vote(Vote(term))

    def _send_all(self) -> None:
        for other in self.others:
            self._send_to(other)

    def _send_to(self, other: str) -> None:
        """Send *other* what it lacks, unless an answer of it is still due."""
        if other in self._asked:
            return
        before, log = self._next[other] - 1, self.log
        snapshot = None
        if before < log.snapshot.index:
            snapshot, before = log.snapshot, log.snapshot.index
        before_term = log.term_at(before)
        assert before_term is not None, "it is in the log"
        entries = log.after(before)[:ENTRIES_MAX]
        request = AppendRequest(
            self.term, self.self_id, before, before_term, entries, self.committed, snapshot
        )
        self._ask(other, request)

    def _ask(self, other: str, request: GroupRequest) -> None:
        self._asked[other] = request
        self.send(other, request)

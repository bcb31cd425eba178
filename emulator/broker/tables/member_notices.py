"""NOTIFY_CONSUMER_IDS_CHANGED: which members are notified of a change of their group, and when.

A change is pushed to every connection of the group at once.  For a large group that would be
quadratic: a thousand members that leave together would each be announced to all the others.
So a group that was notified is quiet for a while, one millisecond for ten members, and what
changes meanwhile is announced once, at the end; and pushes leave in slices, between which
other requests are answered.  What clients may rely on stays: every member is notified after
the last change, and at once while its group has fewer than ten.

A broker may also merge all changes of 15 s: ``MergedNotices`` (realTimeNotifyConsumerChange is
off, 5.x).  Its clock runs from the broker's start, and first rings after 30 s.

Upstream: DefaultConsumerIdsChangeListener, which pushes each change to all, in the thread
that found it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from emulator.facts import MembersNotified, Note
from emulator.net.results import Later, Peer, Push
from protocol.codes import RequestCode
from protocol.requests.callbacks import NotifyConsumerIdsChangedRequest

PUSHES_A_SLICE_MAX = 200
MERGED_FIRST_MS, MERGED_EVERY_MS = 30_000, 15_000
MEMBERS_A_QUIET_MS = 10

MembersOf: TypeAlias = Callable[[str], Iterable[Peer]]  # a group's connections; none if it is gone


class _Notice:
    """One group's: under way, or quiet since the last one."""

    __slots__ = ("has_changed", "left", "member_count", "pushed_count")

    def __init__(self) -> None:
        self.has_changed = True  # since the last notice was begun
        self.left: deque[Peer] = deque()  # to whom it has still to be pushed
        self.member_count = 0
        self.pushed_count = 0


class MemberNotices:
    """Groups whose members are to be notified, in the order in which they changed."""

    def __init__(self, members_of: MembersOf, *, note: Note, push: Push, later: Later) -> None:
        self._members_of = members_of
        self._note = note
        self._push = push
        self._later = later
        self._notices: dict[str, _Notice] = {}
        self._under_way: deque[str] = deque()
        self._room = 0  # for pushes, at the time ``_room_at_ms``
        self._room_at_ms = -1
        self._goes_on = False  # the next slice is planned

    def changed(self, group: str, now_ms: int) -> None:
        """Notify all members of *group*: now, or when it was quiet for long enough."""
        notice = self._notices.get(group)
        if notice is not None:
            notice.has_changed = True
            return
        self._notices[group] = _Notice()
        self._under_way.append(group)
        if not self._goes_on:
            if now_ms != self._room_at_ms:
                self._room, self._room_at_ms = PUSHES_A_SLICE_MAX, now_ms
            self._push_slice(now_ms)

    def _push_slice(self, now_ms: int) -> None:
        """Push as far as there is room; the rest when others have had their turn."""
        while self._under_way:
            group = self._under_way[0]
            notice = self._notices[group]
            if notice.has_changed and not notice.left:
                self._begin(group, notice)
            while notice.left:
                if self._room <= 0:
                    self._goes_on = True
                    self._later(now_ms, self._go_on)
                    return
                self._push_to(notice.left.popleft(), group, notice)
            self._under_way.popleft()
            self._end(group, notice, now_ms)

    def _go_on(self, now_ms: int) -> None:
        self._goes_on = False
        self._room, self._room_at_ms = PUSHES_A_SLICE_MAX, now_ms
        self._push_slice(now_ms)

    def _begin(self, group: str, notice: _Notice) -> None:
        notice.has_changed = False
        notice.left.extend(self._members_of(group))
        notice.member_count = len(notice.left)
        notice.pushed_count = 0

    def _push_to(self, peer: Peer, group: str, notice: _Notice) -> None:
        self._room -= 1
        header = NotifyConsumerIdsChangedRequest(consumer_group=group)
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        notice.pushed_count += self._push(peer, code, header, b"")

    def _end(self, group: str, notice: _Notice, now_ms: int) -> None:
        """All were notified: the group is quiet from now on, the longer the larger it is."""
        if notice.member_count:
            self._note(MembersNotified(group, notice.pushed_count))
        quiet_ms = notice.member_count // MEMBERS_A_QUIET_MS
        if quiet_ms:
            self._later(now_ms + quiet_ms, lambda at_ms: self._quiet_is_over(group, at_ms))
        elif notice.has_changed:
            self._under_way.append(group)  # while it was pushed, a slice at a time
        else:
            del self._notices[group]

    def _quiet_is_over(self, group: str, now_ms: int) -> None:
        if self._notices.pop(group).has_changed:
            self.changed(group, now_ms)


class MergedNotices:
    """*notices* of what changed since the last ring, all at the next one."""

    def __init__(self, notices: MemberNotices, *, later: Later, began_ms: int) -> None:
        self._notices = notices
        self._later = later
        self._first_ms = began_ms + MERGED_FIRST_MS
        self._changed: dict[str, None] = {}

    def changed(self, group: str, now_ms: int) -> None:
        """Notify all members of *group* when it rings."""
        if not self._changed:
            rings = max(0, (now_ms - self._first_ms) // MERGED_EVERY_MS + 1)
            self._later(self._first_ms + rings * MERGED_EVERY_MS, self._ring)
        self._changed[group] = None

    def _ring(self, now_ms: int) -> None:
        changed, self._changed = self._changed, {}
        for group in changed:
            self._notices.changed(group, now_ms)

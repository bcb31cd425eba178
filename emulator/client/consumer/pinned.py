"""A strategy of one's own: only chosen machines consume.

Two ways to write it, which look alike.  The first is what articles about RocketMQ show: a member
that is on no chosen machine answers with an empty list.  But the others still compute their
shares for *all* members, so the shares of those that refuse have no owner, and a backlog
grows there (``protocol.idle_queues.starved`` names the queues).  The second takes the strangers
out of the list before it is shared, and nothing starves as long as one chosen member lives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from emulator.client.consumer.allocation import AVG, Strategy
from protocol.allocation import is_member
from protocol.queues import MessageQueue


def refusing(hosts: Collection[str], inner: Strategy = AVG) -> Strategy:
    """As articles show it: whoever is not on *hosts* takes nothing; its share starves.

    A host is what stands before the ``@`` of a client id.
    """
    chosen = frozenset(hosts)

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        return inner.allocate(queues, members, me) if host_of(me) in chosen else []

    return Strategy(f"REFUSING-{inner.name}", allocate)


def pinned(hosts: Collection[str], inner: Strategy = AVG) -> Strategy:
    """Members on *hosts* share all queues, the others get none.

    While no member is on *hosts*, nobody consumes: that is what was asked for.
    """
    chosen = frozenset(hosts)

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        if not is_member(queues, members, me) or host_of(me) not in chosen:
            return []
        return inner.allocate(queues, [m for m in members if host_of(m) in chosen], me)

    return Strategy(f"PINNED-{inner.name}", allocate)


def host_of(client_id: str) -> str:
    """The address in a client id, ``10.0.0.7@billing`` -> ``10.0.0.7``."""
    return client_id.partition("@")[0]

"""Who is at the two ends of a stream, by name, and which faults of links mean them.

A node is known by its name and by its role's (``brokers``, ``name_servers``).  Everybody else
is one of the ``clients``: at a NameServer no more is known.  At a broker a connection also
has its client's id, the part of it that names the instance, and its groups, from the first
heartbeat on that connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from emulator.cluster.faults.values import LinkFault, Nodes

Names: TypeAlias = frozenset[str]

CLIENTS, BROKERS, NAME_SERVERS = "clients", "brokers", "name_servers"
SOME_CLIENTS: Names = frozenset([CLIENTS])


def names_of_client(client_id: str, groups: Iterable[str]) -> Names:
    """Of one whose heartbeat was read: ``10.0.0.1@billing-1`` is also ``billing-1``."""
    parts = client_id.split("@")
    instance = parts[1] if len(parts) > 1 else client_id
    return frozenset([CLIENTS, client_id, instance, *groups])


def is_meant(fault: LinkFault, source: Names, target: Names) -> bool:
    """Does *fault* hold for what *source* sends to *target*?"""
    if fault.around is not None:
        leaves, arrives = _is_one_of(fault.around, source), _is_one_of(fault.around, target)
        return leaves and not arrives if fault.one_way else leaves != arrives
    assert fault.between is not None
    first, second = fault.between
    if _is_one_of(first, source) and _is_one_of(second, target):
        return True
    if fault.one_way:
        return False
    return _is_one_of(first, target) and _is_one_of(second, source)


def _is_one_of(wanted: Nodes, names: Names) -> bool:
    """A group is also meant by the names of its members: ``billing-1``, ``billing-2`` …"""
    if not isinstance(wanted, str):
        return any(_is_one_of(one, names) for one in wanted)
    if wanted in names:
        return True
    return any(re.fullmatch(rf"{re.escape(wanted)}-\d+", name) for name in names)

"""Whom a fault means: names of nodes, and the few names that stand for several.

``brokers``, ``name_servers``, ``clients``, and a consumer group for its members, which are
called ``<group>-1``, ``<group>-2`` …  Whether a name is meant is answered by the name alone, so
that a fault of a link also means a client that joins later.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from emulator.cluster.world import UnknownNode
from emulator.journal import WORLD_NODE

if TYPE_CHECKING:
    from emulator.cluster.faults.values import Nodes
    from emulator.cluster.spec import ClusterSpec

OPERATOR = "operator"  # the virtual machine from which rules are set: no fault cuts it off
NO_CLIENTS = (OPERATOR, WORLD_NODE)

SELECTORS: Mapping[str, Callable[[ClusterSpec, str], bool]] = {
    "brokers": lambda spec, name: name in spec.broker_names,
    "name_servers": lambda spec, name: name in spec.name_server_names,
    "clients": lambda spec, name: (
        name not in (*spec.name_server_names, *spec.broker_names, *NO_CLIENTS)
    ),
}


def is_meant(spec: ClusterSpec, wanted: Nodes, name: str) -> bool:
    """Does *wanted*, a name or several, mean the node *name*?"""
    if not isinstance(wanted, str):
        return any(is_meant(spec, one, name) for one in wanted)
    if (selects := SELECTORS.get(wanted)) is not None:
        return selects(spec, name)
    return name == wanted or re.fullmatch(rf"{re.escape(wanted)}-\d+", name) is not None


def names_meant(spec: ClusterSpec, wanted: Nodes, known: Iterable[str]) -> tuple[str, ...]:
    """Those of the *known* nodes, in their order.  Raises ``UnknownNode`` for a name of nobody.

    ``clients`` may be nobody yet.
    """
    known = tuple(known)
    for one in (wanted,) if isinstance(wanted, str) else wanted:
        if one not in SELECTORS and not any(is_meant(spec, one, name) for name in known):
            raise UnknownNode(one, known, near=nearest(one, (*known, *SELECTORS)))
    return tuple(name for name in known if is_meant(spec, wanted, name))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or an empty one."""
    return next(iter(difflib.get_close_matches(word, [*known], n=1)), "")

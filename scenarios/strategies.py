"""How a group shares its queues, by the names that scenarios use.

A name of one's own is ``module:function``: a pure function of (queues, members, me).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from emulator.client.consumer.allocation import AVG, AVG_BY_CIRCLE, Strategy, consistent_hash

STRATEGIES: Mapping[str, Strategy] = {
    "averagely": AVG,
    "by_circle": AVG_BY_CIRCLE,
    "consistent_hash": consistent_hash(),
}


def strategy_named(name: str) -> Strategy:
    """Raises ``ValueError`` when there is none of that name."""
    if (known := STRATEGIES.get(name)) is not None:
        return known
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f"there is no strategy {name!r}")
    try:
        return Strategy(name, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"strategy {name!r}: {error}") from None

"""How a group shares its queues, by the names that scenarios use.

A name of one's own is ``module:function`` or ``file.py:function``: a pure function of
(queues, members, me), or a ``Strategy``.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from emulator.client.consumer.allocation import AVG, AVG_BY_CIRCLE, Strategy, consistent_hash

STRATEGIES: Mapping[str, Strategy] = {
    "averagely": AVG,
    "by_circle": AVG_BY_CIRCLE,
    "consistent_hash": consistent_hash(),
}


def strategy_named(name: str) -> Strategy:
    """Raises ``ValueError`` when there is none of that name, or its module cannot be loaded."""
    if (known := STRATEGIES.get(name)) is not None:
        return known
    module, colon, function = name.rpartition(":")
    if not colon:
        near = difflib.get_close_matches(name, STRATEGIES, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(STRATEGIES)}"
        raise ValueError(f"there is no strategy {name!r}: {meant}; your own is FILE.py:FUNCTION")
    try:
        found = getattr(_module(module), function)
    except Exception as error:  # whatever somebody's file raises when it is loaded
        raise ValueError(f"strategy {name!r}: {type(error).__name__}: {error}") from error
    if isinstance(found, Strategy):
        return found
    if callable(found):
        return Strategy(name, found)
    raise ValueError(f"strategy {name!r}: it is no function of (queues, members, me)")


def _module(name: str) -> ModuleType:
    """By its dotted name, or from a file."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "the same"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

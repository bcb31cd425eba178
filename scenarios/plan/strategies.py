"""Allocation strategies by the names that scenarios use.

Some have settings, which follow the name: ``averagely_auto(4.9.7)``,
``pinned(10.0.0.1, 10.0.0.2)``.  A strategy of your own is named ``module:function`` or
``file.py:function``: a pure function of (queues, members, me), or a ``Strategy``.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from rocketmq_emulator.client.consumer.group.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    Strategy,
    averagely_auto,
    consistent_hash,
    pinned,
    refusing,
)
from rocketmq_emulator.text.old_names import renamed, renamed_import
from rocketmq_emulator.text.suggestions import did_you_mean

STRATEGIES: Mapping[str, Strategy] = {
    "averagely": AVG,
    "by_circle": AVG_BY_CIRCLE,
    "consistent_hash": consistent_hash(),
}
ALIASES: Mapping[str, str] = {"circle": "by_circle"}  # short names that RocketMQ users know
WITH_SETTINGS: Mapping[str, Callable[[list[str]], Strategy]] = {
    "averagely_auto": lambda given: averagely_auto(_one(given, "the release to be above")),
    "pinned": lambda given: pinned(_some(given, "hosts")),
    "refusing": lambda given: refusing(_some(given, "hosts")),
}
CALL_SYNTAX = re.compile(r"(\w+)\(([^()]*)\)")


def strategy_named(name: str) -> Strategy:
    """The strategy *name*.  Raises ``ValueError`` if there is none or its module fails to load."""
    if (known := STRATEGIES.get(ALIASES.get(name, name))) is not None:
        return known
    module, colon, function = name.rpartition(":")
    if not colon:
        return _with_settings(name)
    try:
        found = getattr(_module(module), function)
    except Exception as error:  # a user's file can raise anything when it is loaded
        why = renamed(module, function) if isinstance(error, ImportError) else ""
        why = why or renamed_import(error) or f"{type(error).__name__}: {error}"
        raise ValueError(f"strategy {name!r}: {why}") from error
    if isinstance(found, Strategy):
        return found
    if callable(found):
        return Strategy(name, found)
    raise ValueError(f"strategy {name!r}: it is no function of (queues, members, me)")


def _with_settings(name: str) -> Strategy:
    """The strategy of a name with settings: ``averagely_auto(4.9.7)``."""
    called = CALL_SYNTAX.fullmatch(name)
    make = WITH_SETTINGS.get(called[1] if called else name)
    if make is None:
        known = [*STRATEGIES, *WITH_SETTINGS]
        meant = did_you_mean(called[1] if called else name, known)
        raise ValueError(f"there is no strategy {name!r}: {meant}; your own is FILE.py:FUNCTION")
    given = [part.strip() for part in called[2].split(",")] if called else []
    try:
        return make([part for part in given if part])
    except ValueError as error:
        raise ValueError(f"strategy {name!r}: {error}") from error


def _one(given: list[str], what: str) -> str:
    if len(given) != 1:
        raise ValueError(f"it needs {what} in parentheses, such as (4.9.7)")
    return given[0]


def _some(given: list[str], what: str) -> list[str]:
    if not given:
        raise ValueError(f"it needs {what} in parentheses, such as (10.0.0.1, 10.0.0.2)")
    return given


def _module(name: str) -> ModuleType:
    """The module with this dotted name, or of this file."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

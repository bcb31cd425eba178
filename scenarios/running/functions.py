"""Functions of the user's own, by ``module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class BadFunction(ValueError):
    """A plan names a function that there is not."""


def function_named(name: str, what: str) -> Callable[..., Any]:
    """The function; raises ``BadFunction`` with *what* it should have been."""
    module, _, function = name.partition(":")
    if not function:
        raise BadFunction(f"{name!r} is not {what}, and no module:function")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise BadFunction(f"{name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise BadFunction(f"{module} has no function {function!r}")
    return found  # type: ignore[no-any-return]

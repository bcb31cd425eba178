"""Public methods have a docstring, unless a base class has the method.

The linter's rule (D102) also demands docstrings of overriding methods, which only repeat those
of the base class.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import FunctionType

import rocketmq_emulator

METHODS = FunctionType | property | classmethod | staticmethod


def classes() -> Iterator[type]:
    """The public classes of all modules that can be imported here."""
    for found in pkgutil.walk_packages(rocketmq_emulator.__path__, "rocketmq_emulator."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, kind in vars(module).items():
            if (
                inspect.isclass(kind)
                and kind.__module__ == found.name
                and not name.startswith("_")
            ):
                yield kind


def undocumented(kind: type) -> list[str]:
    """The public methods of *kind* that no base class has, and that have no docstring."""
    return [
        f"{kind.__module__}.{kind.__qualname__}.{name}"
        for name, member in vars(kind).items()
        if isinstance(member, METHODS)
        and not name.startswith("_")
        and not member.__doc__
        and not any(hasattr(base, name) for base in kind.__mro__[1:])
    ]


class Base:
    """A base class for the test below."""

    def documented(self) -> None:
        """A docstring."""


class Derived(Base):
    """A class with undocumented methods for the test below."""

    def documented(self) -> None: ...

    def bare(self) -> None: ...

    @property
    def also_bare(self) -> int:
        return 0

    def _private(self) -> None: ...


def test_a_new_method_without_a_docstring_would_be_found() -> None:
    names = [name.rpartition(".")[2] for name in undocumented(Derived)]
    assert names == ["bare", "also_bare"]


def test_public_methods_say_what_they_do() -> None:
    found = list(classes())
    assert len(found) > 500
    assert [name for kind in found for name in undocumented(kind)] == []

"""Docstrings, also where Python has removed them: ``python -OO`` leaves none in the code.

Titles of scenarios, help of commands and pages are made from docstrings, and a journal holds
its scenario's title.  So if Python has removed the docstrings, they are read from the source.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Mapping
from functools import cache
from types import FunctionType, MethodType, ModuleType
from typing import Any

from rocketmq_emulator.protocol.error_families import CannotDoHere

REMOVED_FROM = 2  # sys.flags.optimize of python -OO


class NoSource(CannotDoHere):
    """A docstring cannot be read: Python has removed it, and its source is not here."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"python -OO has removed the docstring of {name}, and its source is not here"
        )


def docstring_of(thing: object) -> str:
    """As ``inspect.getdoc``, of a module, a class or a function; empty if there is none.

    The same text under ``python``, ``-O`` and ``-OO``.  Raises ``NoSource``, under ``-OO`` only.
    """
    if sys.flags.optimize < REMOVED_FROM:
        return inspect.getdoc(thing) or ""
    if not isinstance(thing, type) and thing.__doc__ is not None:
        return inspect.getdoc(thing) or ""  # it was given one at run time
    return docstring_in_source(thing)


def docstring_in_source(thing: object) -> str:
    """As ``docstring_of``, always from the source.  Raises ``NoSource``."""
    if isinstance(thing, ModuleType):
        return ast.get_docstring(_tree(thing.__file__, vars(thing), thing.__name__)) or ""
    if isinstance(thing, type):
        return next(filter(None, map(_of_class, thing.__mro__)), "")
    return _of_function(inspect.unwrap(thing) if callable(thing) else thing)


def _of_function(function: object) -> str:
    function = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(function, FunctionType):
        raise NoSource(repr(function))
    code = function.__code__
    tree = _tree(code.co_filename, function.__globals__, code.co_name)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first_line = min(each.lineno for each in (node, *node.decorator_list))
            if first_line == code.co_firstlineno:
                return ast.get_docstring(node) or ""
    raise NoSource(code.co_name)  # the file has changed since it was loaded


def _of_class(kind: type) -> str:
    """Its own docstring; that at run time if the class is not written in Python."""
    module = sys.modules[kind.__module__]
    file = getattr(module, "__file__", None) or ""
    if not file.endswith(".py"):
        return inspect.cleandoc(vars(kind).get("__doc__") or "") if kind is not object else ""
    node: ast.AST = _tree(file, vars(module), kind.__qualname__)
    for name in kind.__qualname__.split("."):
        node = node if name == "<locals>" else _named(node, name, kind.__qualname__)
    return ast.get_docstring(node) or "" if isinstance(node, ast.ClassDef) else ""


def _named(node: ast.AST, name: str, whose: str) -> ast.AST:
    for each in ast.walk(node):
        if each is not node and getattr(each, "name", "") == name:
            return each
    raise NoSource(whose)


def _tree(file: str | None, names: Mapping[str, Any], whose: str) -> ast.Module:
    text = "".join(linecache.getlines(file or "", dict(names)))
    if not text:
        raise NoSource(whose)
    return _parsed(text)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)

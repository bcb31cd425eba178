"""The import graph of the packages, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

PACKAGES = ("protocol", "emulator", "scenarios", "pipeline", "pyspark_rocketmq")  # real folders
NAME = "rocketmq_emulator"  # the package of all but the last of them


class Imports(NamedTuple):
    """The imports of one module: those at run time, and the others for type checkers only."""

    at_run_time: frozenset[str]
    for_types: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.at_run_time | self.for_types


@cache
def paths() -> tuple[Path, ...]:
    """Every source file of the packages, relative to the root."""
    found = [path for top in PACKAGES for path in sorted((ROOT / top).rglob("*.py"))]
    assert len(found) > 50
    return tuple(path.relative_to(ROOT) for path in found)


def module_of(path: Path) -> str:
    """The name by which the file at *path* is imported."""
    top, *inner = path.with_suffix("").parts
    above = {"emulator": [NAME], "pyspark_rocketmq": [top]}.get(top, [NAME, top])
    return ".".join([*above, *inner]).removesuffix(".__init__")


def folder_of(module: str) -> str:
    """The real folder with the file of *module*."""
    return str(path_of()[module].parent)


@cache
def path_of() -> dict[str, Path]:
    return {module_of(path): path for path in paths()}


@cache
def imports_of(path: Path) -> Imports:
    """The dotted names that the file at *path* imports, at any place in it."""
    kinds = ast.If | ast.Import | ast.ImportFrom
    tree = ast.parse((ROOT / path).read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    typing_only = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for node in nodes:
        kept = names[id(node) in typing_only]
        if isinstance(node, ast.Import):
            kept |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            kept |= named
            if not named <= path_of().keys():  # some names are not modules
                kept.add(node.module)
    return Imports(frozenset(names[False]), frozenset(names[True]))


def graph(*, with_types: bool) -> dict[str, set[str]]:
    """For each module, the modules of the packages that it imports."""
    modules = path_of()
    return {
        name: {
            other
            for other in (imports_of(path).all if with_types else imports_of(path).at_run_time)
            if other in modules and other != name
        }
        for name, path in modules.items()
    }


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected parts of more than one node, each sorted (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found)


def between_folders(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same graph with each module replaced by its folder."""
    joined: dict[str, set[str]] = {}
    for name, others in edges.items():
        here = joined.setdefault(folder_of(name), set())
        here |= {folder_of(other) for other in others} - {folder_of(name)}
    return joined

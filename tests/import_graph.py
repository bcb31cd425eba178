"""The import graph of the packages, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "protocol",
    "emulator",
    "scenarios",
    "pipeline",
    "rocketmq_emulator",
    "pyspark_rocketmq",
)


class Imports(NamedTuple):
    """What one module imports: when it runs, and besides for type checkers only."""

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
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_of(path: Path) -> Imports:
    """The dotted names that the file at *path* imports, wherever in it they stand."""
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
            kept.add(node.module)
            kept |= {f"{node.module}.{alias.name}" for alias in node.names}
    return Imports(frozenset(names[False]), frozenset(names[True]))


def graph(*, with_types: bool) -> dict[str, set[str]]:
    """Module to the modules of the packages that it imports."""
    modules = {module_of(path): path for path in paths()}
    return {
        name: {
            other
            for other in (imports_of(path).all if with_types else imports_of(path).at_run_time)
            if other in modules and other != name and not name.startswith(other + ".")
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


def between(edges: Mapping[str, set[str]], rooms: tuple[str, ...]) -> dict[str, set[str]]:
    """The same graph with each module replaced by its room, the longest name that fits."""

    def room(name: str) -> str | None:
        fitting = [r for r in rooms if name == r or name.startswith(r + ".")]
        return max(fitting, key=len, default=None)

    joined: dict[str, set[str]] = {name: set() for name in rooms}
    for name, others in edges.items():
        here = room(name)
        if here is not None:
            joined[here] |= {there for o in others if (there := room(o)) not in (None, here)}
    return joined

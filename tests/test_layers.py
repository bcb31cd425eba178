"""Imports only point down, and only the shells wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_graph import imports_of, module_of, paths

LAYERS = (  # from the bottom up; names in one row never import each other
    ("protocol",),
    (
        "emulator.clock",
        "emulator.config",
        "emulator.releases",
        "emulator.facts",
        "emulator.journal",
        "emulator.logs",
        "emulator.disk",
    ),
    ("emulator.net",),
    ("emulator.sim",),
    ("emulator.nameserver", "emulator.broker", "emulator.client"),
    ("emulator.node", "emulator.cluster", "emulator.protocol_page"),
    ("emulator.cli", "emulator.__main__"),
)
SAME_ROW_MAY_MEET = {1, 5, 6}  # facts know releases, clusters start nodes, __main__ is the cli

BYTES_ONLY = ("emulator.net.transport", "emulator.disk", "emulator.clock", "emulator.sim")
SHELL_WORDS = {"trio", "time", "socket", "os", "structlog", "subprocess", "threading", "signal"}
SHELLS = (
    "emulator.clock",
    "emulator.disk.files",
    "emulator.logs",
    "emulator.disk.flusher",
    "emulator.net",
    "emulator.sim",
    "emulator.node",
    "emulator.cluster",
    "emulator.cli",
    "emulator.nameserver.service",
    "emulator.broker.service",
    "emulator.broker.registration",
)


def imports(path: Path) -> frozenset[str]:
    """What a module imports when it runs; annotations under TYPE_CHECKING move nothing."""
    return imports_of(path).at_run_time


def layer_of(name: str) -> tuple[int, str] | None:
    for level, row in enumerate(LAYERS):
        for room in row:
            if name == room or name.startswith(room + "."):
                return level, room
    return None


def is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


@pytest.mark.parametrize("path", paths(), ids=str)
def test_imports_only_point_down(path: Path) -> None:
    here = layer_of(module_of(path))
    if here is None:
        assert module_of(path) == "emulator", f"{path} stands in no layer"
        return
    for name in imports(path):
        there = layer_of(name)
        if there is None or there[1] == here[1]:
            continue
        sideways = there[0] == here[0] and here[0] not in SAME_ROW_MAY_MEET
        assert there[0] <= here[0], f"{path} may not import {name}: imports only point down"
        assert not sideways, f"{path} may not import {name}: siblings never import each other"


@pytest.mark.parametrize("path", paths(), ids=str)
def test_only_shells_wait_read_clocks_or_touch_the_machine(path: Path) -> None:
    name = module_of(path)
    if is_in(name, SHELLS) or is_in(name, CLIENT_SHELLS):
        return
    touched = {word.split(".")[0] for word in imports(path)} & SHELL_WORDS
    assert not touched, f"{path} imports {sorted(touched)}: state stands apart from IO"


@pytest.mark.parametrize("path", paths(), ids=str)
def test_the_virtual_world_knows_no_rocketmq(path: Path) -> None:
    if not is_in(module_of(path), ("emulator.sim",)):
        return
    for name in imports(path):
        if name.split(".")[0] in ("protocol", "emulator"):
            assert is_in(name, BYTES_ONLY), f"{path} may not import {name}: it moves bytes"


# The client is mostly waiting: these of its files do, the others are values.
CLIENT_SHELLS: tuple[str, ...] = ("emulator.client",)

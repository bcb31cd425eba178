"""No import circles: not between files, and not between rooms.

Imports for type checkers count as well: a file that must know its neighbour's type knows
its neighbour.
"""

from __future__ import annotations

from import_graph import between, circles, graph

ROOMS = (
    "protocol",
    "emulator.cli",
    "emulator.clock",
    "emulator.cluster",
    "emulator.config",
    "emulator.disk",
    "emulator.facts",
    "emulator.fitting",
    "emulator.journal",
    "emulator.nameserver",
    "emulator.net",
    "emulator.node",
    "emulator.node_forks",
    "emulator.releases",
    "emulator.sim",
    "rocketmq_emulator",
    "scenarios",
    "scenarios.library",
)
BROKER_ROOMS = (  # from the bottom up; service and registration stand at the top
    "emulator.broker.tables",
    "emulator.broker.store",
    "emulator.broker.broker",
    "emulator.broker.handlers",
    "emulator.broker.registration",
    "emulator.broker.service",
)
CLIENT_ROOMS = (
    "emulator.client.arguments",
    "emulator.client.config",
    "emulator.client.errors",
    "emulator.client.instance",
    "emulator.client.producer",
    "emulator.client.setting_names",
    "emulator.client.consumer",
)
# A class and its own parts, which are cut off only because the class would be too long.
OWN_PARTS: tuple[tuple[str, ...], ...] = ()


def test_no_two_files_import_each_other() -> None:
    found = [tuple(circle) for circle in circles(graph(with_types=True))]
    assert sorted(set(found) - set(OWN_PARTS)) == []


def test_every_exception_is_still_needed() -> None:
    found = circles(graph(with_types=True))
    assert [own_parts for own_parts in OWN_PARTS if list(own_parts) not in found] == []


def test_no_two_rooms_import_each_other() -> None:
    edges = graph(with_types=True)
    assert circles(between(edges, (*ROOMS, "emulator.broker", "emulator.client"))) == []
    assert circles(between(edges, BROKER_ROOMS)) == []
    assert circles(between(edges, CLIENT_ROOMS)) == []


def test_a_circle_would_be_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
    assert circles(edges) == [["a", "b", "c"]]
    assert circles(between({"x.a": {"y.a"}, "y.b": {"x.b"}, "x.b": set()}, ("x", "y"))) == [
        ["x", "y"]
    ]

"""Imports only point down, and only the shells wait."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.import_graph import NAME, imports_of, module_of, paths

Layers: TypeAlias = tuple[tuple[str, ...], ...]

# One test checks all files, and names the first place that breaks the rule.

LAYERS = (  # the lowest first; rooms of one row never import each other
    ("protocol",),
    ("clocks", "disk", "errors", "facts", "faults", "settings", "text"),
    ("net", "checks"),
    ("sim",),
    ("nameserver", "controller", "broker", "client"),
    ("quirks",),  # bugs with names: found by name, never imported
    ("processes", "admin", "cluster"),
    ("scenarios",),
    ("pipeline",),
    ("cli", "portal", "testing", ""),  # "" are the files of the root
    ("scenarios.library",),  # written like scenarios of users; found by name, never imported
)
INNER_LAYERS = {  # layers inside a room; here imports for type checkers count, too
    "broker": (
        ("tables",),
        ("store",),
        ("replication",),
        ("state",),
        ("handlers",),
        ("",),
    ),
    "nameserver": (("state",), ("handlers",), ("",)),
    "controller": (("state",), ("",)),
    "client": (
        ("settings",),
        ("instance",),
        ("producer", "consumer.strategies"),
        ("consumer.group",),
        ("consumer.push",),
        ("consumer.pull",),
        ("",),
    ),
    "cluster": (("",), ("faults", "links"), ("control",), ("worlds",)),
    "checks": (("state",), ("rules",), ("monitors",), ("servers",), ("judging", "")),
    "pipeline": (("",), ("tables", "source"), ("sweep",), ("studies",)),
    "cli": (("options",), ("screens",), ("messages",), ("commands", "demo"), ("",)),
}
SEES_ONLY = {  # the rooms that a room of the pipeline may import
    "pipeline.session": ("pipeline", "protocol.error_families"),
    "pipeline.java_classes": ("pipeline", "protocol.error_families"),
    "pipeline.schemas": ("pipeline", "protocol.error_families"),
    "pipeline.tables": ("pipeline", "facts", "protocol.error_families"),
    # It uses blocking sockets, like tools, and suggests near names in errors, like all rooms.
    "pipeline.source": ("pipeline", "protocol", "net.blocking_calls", "text"),
}
SAME_ROW_MAY_MEET = {1, 6, 9}  # facts import clocks, worlds processes, testing portals

BYTES_ONLY = ("net.transport", "disk", "clocks", "faults", "sim", "protocol.error_families")
VIRTUAL_RUNS = {  # all other modules run with every release of trio: see sim/scheduler.py
    "cluster.worlds.virtual",
    "scenarios.running.virtual_run",
    "testing.virtual_rocketmq",
    "testing.virtual_tests",
    "virtual",
}
PRIVATE_PARTS_OF_TRIO = re.compile(r"\btrio\._|\btrio import _")
SHELL_WORDS = {"trio", "time", "socket", "os", "structlog", "subprocess", "threading", "signal"}
SHELLS = {  # the modules of SHELL_WORDS that each file imports
    "admin.cluster_reader": "trio",
    "broker.controller_task": "trio",
    "broker.copying_task": "trio",
    "broker.failover.acting_master": "trio",
    "broker.failover.pre_online": "trio",
    "broker.registration": "trio",
    "broker.service": "trio",
    "cli": "signal",
    "cli.app": "os signal",
    "cli.commands.consume": "time trio",
    "cli.commands.dlq": "trio",
    "cli.commands.docs": "os",
    "cli.commands.group": "time",
    "cli.commands.inspect": "os",
    "cli.commands.judge": "signal threading time",
    "cli.commands.produce": "trio",
    "cli.commands.replay": "os",
    "cli.commands.roles": "os socket",
    "cli.commands.spark": "time",
    "cli.commands.up": "os signal time trio",
    "cli.demo.command": "trio",
    "cli.demo.member": "os trio",
    "cli.demo.run": "os signal subprocess time trio",
    "cli.demo.screen": "time",
    "cli.messages.line_sender": "os trio",
    "cli.messages.printer": "trio",
    "cli.options.completion": "threading",
    "cli.options.errors": "os",
    "cli.options.help_screens": "os",
    "cli.options.server_arguments": "os",
    "cli.options.shared": "trio",
    "cli.screens.live": "time trio",
    "cli.screens.progress_bar": "time",
    "cli.screens.sweep_screen": "time",
    "client.consumer.group.broker_requests": "trio",
    "client.consumer.group.group_membership": "trio",
    "client.consumer.group.member": "trio",
    "client.consumer.pull.pull_tasks": "trio",
    "client.consumer.push.consume_concurrently": "time trio",
    "client.consumer.push.consume_orderly": "trio",
    "client.consumer.push.consume_pipeline": "trio",
    "client.consumer.push.message_loop": "trio",
    "client.consumer.push.worker_pool": "trio",
    "client.instance.plain_functions": "trio",
    "client.instance.process": "os time trio",
    "client.instance.services": "trio",
    "client.instance.topic_routes": "trio",
    "client.instance.tracing": "trio",
    "client.producer.producer": "trio",
    "client.producer.requests": "trio",
    "client.producer.send_attempts": "trio",
    "client.producer.transactions": "trio",
    "clocks.clock": "time trio",
    "cluster.control.facts_feed": "trio",
    "cluster.control.routes": "os",
    "cluster.control.server": "socket threading trio",
    "cluster.control.serving": "socket trio",
    "cluster.faults.real_time_faults": "threading time",
    "cluster.links.proxy_ports": "socket trio",
    "cluster.links.streams": "socket trio",
    "cluster.links.tcp_links": "threading trio",
    "cluster.node_view": "time",
    "cluster.world": "trio",
    "cluster.worlds.embedded": "os signal threading time trio",
    "cluster.worlds.embedded_node": "trio",
    "cluster.worlds.pausable_tasks": "trio",
    "cluster.worlds.processes": "time",
    "cluster.worlds.real_world": "threading",
    "cluster.worlds.virtual": "trio",
    "controller.service": "trio",
    "disk.files": "os threading",
    "disk.temporary_store": "os",
    "facts.logs": "structlog",
    "nameserver.service": "trio",
    "net.blocking_calls": "socket",
    "net.epoll_reader": "trio",
    "net.lookups": "socket trio",
    "net.remoting_client": "trio",
    "net.tasks": "trio",
    "net.tcp": "os socket trio",
    "net.timers": "trio",
    "otel": "time",
    "pipeline.session": "os subprocess",
    "pipeline.java_classes": "os subprocess",
    "pipeline.source.data_source": "os",
    "pipeline.source.errors": "time",
    "pipeline.source.group_membership": "socket threading time",
    "pipeline.source.sending": "os time",
    "pipeline.sweep.preflight": "socket",
    "pipeline.sweep.rows": "os",
    "pipeline.sweep.worker": "os signal",
    "portal.aio_client": "threading trio",
    "portal.client_host": "trio",
    "portal.portal": "os threading trio",
    "processes.fork_server": "os signal socket",
    "processes.node": "os trio",
    "processes.node_process": "os signal subprocess threading time",
    "processes.roles": "trio",
    "processes.spawning": "os signal socket subprocess threading",
    "processes.starting": "os time",
    "processes.stopping": "os signal threading trio",
    "scenarios.catalog.questions": "time",
    "scenarios.library.requests": "trio",
    "scenarios.running.client_processes": "os signal socket subprocess time trio",
    "scenarios.running.client_runner": "trio",
    "scenarios.running.no_wall_time": "threading time trio",
    "scenarios.running.real_run": "time trio",
    "scenarios.running.runner": "trio",
    "scenarios.running.virtual_run": "time trio",
    "scenarios.sweeps.row_files": "os",
    "scenarios.sweeps.run_forks": "os signal socket",
    "scenarios.sweeps.run_pool": "os signal subprocess time",
    "settings.setting_rules": "threading",  # a lock, as msgspec needs one
    "sim.clock": "trio",
    "sim.determinism": "trio",
    "sim.host": "trio",
    "sim.machines": "trio",
    "sim.scheduler": "threading trio",
    "sim.world": "trio",
    "sync": "threading",
    "testing.cluster_queries": "threading trio",
    "testing.clusters": "time",
    "testing.group_waits": "trio",
    "testing.replica_waits": "trio",
    "testing.rocketmq": "time trio",
    "testing.virtual_tests": "os signal time trio",
}


def imports(path: Path) -> frozenset[str]:
    """The imports of a module at run time, without those under TYPE_CHECKING."""
    return imports_of(path).at_run_time


def inside(name: str) -> str | None:
    """The name of a module below ``rocketmq_emulator``; None for modules of other projects."""
    if name == "pyspark_rocketmq":
        return ""
    top, _, below = name.partition(".")
    return below if top == NAME else None


def layer_of(name: str, layers: Layers) -> tuple[int, str]:
    """The layer and the room of module *name*; if many rooms fit, that with the longest name."""
    fitting = [
        (level, room)
        for level, row in enumerate(layers)
        for room in row
        if not room or name == room or name.startswith(room + ".")
    ]
    assert fitting, f"{name} is in no layer"
    return max(fitting, key=lambda found: len(found[1]))


def is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


def test_imports_only_point_down() -> None:
    for path in paths():
        ours = {below for name in imports(path) if (below := inside(name)) is not None}
        check_that_all_point_down(path, ours, LAYERS, SAME_ROW_MAY_MEET)


def check_that_all_point_down(
    path: Path, names: set[str], layers: Layers, may_meet: Collection[int], below: str = ""
) -> None:
    """Check the imported *names* of the file at *path*; *below* is the room of these *layers*."""
    own = inside(module_of(path))
    assert own is not None
    here = layer_of(own.removeprefix(below).removeprefix("."), layers)
    for name in names:
        there = layer_of(name, layers)
        sideways = there[0] == here[0] and there[1] != here[1] and here[0] not in may_meet
        assert there[0] <= here[0], f"{path} may not import {name}: imports only point down"
        assert not sideways, f"{path} may not import {name}: siblings never import each other"


@pytest.mark.parametrize("room", INNER_LAYERS)
def test_imports_inside_a_room_only_point_down(room: str) -> None:
    counted = 0
    for path in paths():
        if not is_in(inside(module_of(path)) or "", (room,)):
            continue
        names = {inside(name) or "" for name in imports_of(path).all}
        ours = {name.removeprefix(f"{room}.") for name in names if is_in(name, (room,))}
        counted += len(ours)
        check_that_all_point_down(path, ours - {room}, INNER_LAYERS[room], (), room)
    assert counted > 20


def test_tables_read_facts_and_the_source_reads_bytes() -> None:
    for path in paths():
        for room, known in SEES_ONLY.items():
            if not is_in(inside(module_of(path)) or "", (room,)):
                continue
            for name in imports(path):
                if (below := inside(name)) is not None:
                    assert is_in(below, known), f"{path} may not import {name}"


def test_only_shells_wait_read_clocks_or_touch_the_machine() -> None:
    for path in paths():
        touched = {word.split(".")[0] for word in imports(path)} & SHELL_WORDS
        allowed = set(SHELLS.get(inside(module_of(path)) or "", "").split())
        unneeded = sorted(allowed - touched)
        assert touched <= allowed, f"{path} imports {sorted(touched)}: only shells may"
        assert not unneeded, f"{path} does not import {unneeded}: change SHELLS"


def test_every_shell_exists() -> None:
    assert SHELLS.keys() <= {inside(module_of(path)) for path in paths()}


def test_only_virtual_runs_import_the_virtual_world() -> None:
    importers = {
        name
        for path in paths()
        if (name := inside(module_of(path)) or "").partition(".")[0] != "sim"
        and any(is_in(inside(other) or "", ("sim",)) for other in imports_of(path).all)
    }
    assert importers == VIRTUAL_RUNS


def test_only_one_file_of_the_virtual_world_names_private_parts_of_trio() -> None:
    named = {path.as_posix() for path in paths() if PRIVATE_PARTS_OF_TRIO.search(path.read_text())}
    assert named == {"emulator/sim/scheduler.py", "emulator/sim/clock.py"}  # the clock for types


def test_the_virtual_world_knows_no_rocketmq() -> None:
    for path in paths():
        if not is_in(inside(module_of(path)) or "", ("sim",)):
            continue
        for name in imports(path):
            if (below := inside(name)) is not None:
                assert is_in(below, BYTES_ONLY), f"{path} may not import {name}: only bytes"


def test_one_module_of_a_floor_looks_for_near_names() -> None:
    # The protocol is below the text, and refuses the names of codes by itself.
    importers = {inside(module_of(path)) for path in paths() if "difflib" in imports(path)}
    assert importers == {"text.suggestions", "protocol.messages.validation"}

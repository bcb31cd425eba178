"""Imports only point down, and only the shells wait."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from import_graph import PACKAGES, imports_of, module_of, paths

# One test over all files, not one a file: the first place that breaks a rule is named.

LAYERS = (  # from the bottom up; names in one row never import each other
    ("protocol",),
    (
        "emulator.addresses",
        "emulator.alarms",
        "emulator.clock",
        "emulator.config",
        "emulator.docstrings",
        "emulator.fitting",
        "emulator.property_names",
        "emulator.quirks",
        "emulator.server_rules",
        "emulator.setting_rules",
        "emulator.releases",
        "emulator.sampled_sums",
        "emulator.facts",
        "emulator.journal",
        "emulator.logs",
        "emulator.disk",
    ),
    ("emulator.net", "emulator.checks"),
    ("emulator.sim",),
    ("emulator.nameserver", "emulator.broker", "emulator.client"),
    ("emulator.node", "emulator.node_forks", "emulator.cluster", "emulator.protocol_page"),
    ("scenarios",),
    ("pipeline",),
    ("emulator.cli", "rocketmq_emulator", "pyspark_rocketmq"),
    ("scenarios.library",),  # written as users write theirs; found by name, never imported
    ("emulator.__main__",),
)
INNER_LAYERS = (  # the same inside a role; imports for type checkers count here
    (
        ("emulator.broker.checks",),
        ("emulator.broker.tables",),
        ("emulator.broker.store",),
        ("emulator.broker.broker",),
        ("emulator.broker.handlers", "emulator.broker.registration", "emulator.broker.quirks"),
        ("emulator.broker.service",),
    ),
    (
        ("emulator.client.errors",),
        ("emulator.client.arguments", "emulator.client.setting_names"),
        ("emulator.client.config",),
        ("emulator.client.instance",),
        ("emulator.client.producer", "emulator.client.consumer"),
    ),
    (
        ("pipeline.session", "pipeline.schemas"),
        ("pipeline.tables", "pipeline.source"),
        ("pipeline.sweep",),
        ("pipeline.studies",),
    ),
)
SEES_ONLY = {  # what a room of the pipeline may know of the emulator
    "pipeline.session": ("pipeline",),
    "pipeline.schemas": ("pipeline",),
    "pipeline.tables": ("pipeline", "emulator.facts", "emulator.journal"),
    "pipeline.source": ("pipeline", "protocol"),
}
SAME_ROW_MAY_MEET = {1, 5}  # facts know releases, clusters start nodes

BYTES_ONLY = (
    "emulator.net.transport",
    "emulator.disk",
    "emulator.alarms",
    "emulator.clock",
    "emulator.sim",
)
SHELL_WORDS = {"trio", "time", "socket", "os", "structlog", "subprocess", "threading", "signal"}
SHELLS = {  # file by file: what of the machine it touches
    "emulator.alarms": "trio",
    "emulator.broker.registration": "trio",
    "emulator.broker.service": "trio",
    "emulator.cli": "signal",
    "emulator.cli.app": "os signal",
    "emulator.cli.consume": "time trio",
    "emulator.cli.demo.command": "trio",
    "emulator.cli.demo.member": "os trio",
    "emulator.cli.demo.members": "os signal subprocess time trio",
    "emulator.cli.demo.run": "time trio",
    "emulator.cli.demo.stage": "time",
    "emulator.cli.dlq": "trio",
    "emulator.cli.errors": "os",
    "emulator.cli.groups": "time",
    "emulator.cli.inspecting": "os",
    "emulator.cli.judge": "signal threading time",
    "emulator.cli.line_sender": "trio",
    "emulator.cli.live": "time trio",
    "emulator.cli.log_options": "os",
    "emulator.cli.payloads": "os trio",
    "emulator.cli.printer": "trio",
    "emulator.cli.produce": "trio",
    "emulator.cli.roles": "os socket",
    "emulator.cli.replay": "os",
    "emulator.cli.run": "os",
    "emulator.cli.late_bar": "time",
    "emulator.cli.shared": "trio",
    "emulator.cli.sweep_screen": "time",
    "emulator.cli.up": "os signal time trio",
    "emulator.cli.watch": "time trio",
    "emulator.client.consumer.active_membership": "trio",
    "emulator.client.consumer.broker_requests": "trio",
    "emulator.client.consumer.consume_concurrently": "time trio",
    "emulator.client.consumer.consume_orderly": "trio",
    "emulator.client.consumer.consume_pipeline": "trio",
    "emulator.client.consumer.hand_over": "trio",
    "emulator.client.consumer.member": "trio",
    "emulator.client.consumer.pull_tasks": "trio",
    "emulator.client.consumer.pulled_batches": "trio",
    "emulator.client.consumer.message_loop": "trio",
    "emulator.client.consumer.queue_ownership": "trio",
    "emulator.client.consumer.worker_pool": "trio",
    "emulator.client.instance.consumer_services": "trio",
    "emulator.client.instance.plain_functions": "trio",
    "emulator.client.instance.process": "os trio",
    "emulator.client.instance.schedule": "trio",
    "emulator.client.instance.topic_routes": "trio",
    "emulator.client.program": "trio",
    "emulator.client.producer.async_send": "trio",
    "emulator.client.producer.detector": "trio",
    "emulator.clock": "time trio",
    "emulator.cluster.cluster_reader": "trio",
    "emulator.cluster.blocking_calls": "socket",
    "emulator.cluster.control.facts_feed": "trio",
    "emulator.cluster.control.routes": "os",
    "emulator.cluster.control.server": "socket threading trio",
    "emulator.cluster.control.serving": "socket trio",
    "emulator.cluster.embedded": "os signal threading time trio",
    "emulator.cluster.embedded_node": "trio",
    "emulator.cluster.ending": "os signal threading",
    "emulator.cluster.faults.in_real_time": "threading time",
    "emulator.cluster.forking": "os signal socket subprocess threading",
    "emulator.cluster.links.doors": "socket trio",
    "emulator.cluster.links.reader_tasks": "trio",
    "emulator.cluster.links.streams": "socket trio",
    "emulator.cluster.links.tcp_links": "threading trio",
    "emulator.cluster.log_output": "os",
    "rocketmq_emulator._pytest_virtual": "os signal time trio",
    "emulator.cluster.observing": "threading trio",
    "emulator.cluster.tested": "trio",
    "emulator.cluster.node_process": "os signal subprocess threading time",
    "emulator.cluster.node_view": "time",
    "emulator.cluster.process_age": "os time",
    "emulator.cluster.processes": "time",
    "emulator.cluster.real_world": "threading",
    "emulator.cluster.spawning": "os subprocess",
    "emulator.cluster.stopping": "os signal trio",
    "emulator.cluster.virtual": "trio",
    "emulator.cluster.watching": "time trio",
    "emulator.cluster.world": "trio",
    "emulator.disk.files": "os",
    "emulator.disk.flusher": "os threading",
    "emulator.logs": "structlog",
    "emulator.nameserver.service": "trio",
    "emulator.net.http_names": "trio",
    "emulator.net.next_pass": "trio",
    "emulator.net.plain_nursery": "trio",
    "emulator.net.remoting_client": "trio",
    "emulator.net.resolving": "socket trio",
    "emulator.net.services": "trio",
    "emulator.net.accepting": "os socket trio",
    "emulator.net.binding": "socket",
    "emulator.net.ready_sockets": "trio",
    "emulator.net.tcp": "os socket trio",
    "emulator.net.timers": "trio",
    "emulator.node": "os trio",
    "emulator.node_forks": "os signal socket",
    "emulator.sim.alarms": "trio",
    "emulator.sim.clock": "trio",
    "emulator.sim.determinism": "threading trio",
    "emulator.sim.host": "trio",
    "emulator.sim.machines": "trio",
    "emulator.sim.scheduler": "trio",
    "emulator.sim.world": "trio",
    "pipeline.session": "os subprocess",
    "pipeline.source.connection": "socket",
    "pipeline.source.group_membership": "socket threading time",
    "pipeline.source.sending": "os time",
    "pipeline.source.waiting": "time",
    "pipeline.sweep.preflight": "socket",
    "pipeline.sweep.under_way": "os",
    "pipeline.sweep.worker": "os signal",
    "scenarios.running.acts": "trio",
    "scenarios.running.client_forks": "os socket trio",
    "scenarios.running.client_processes": "os signal subprocess time",
    "scenarios.running.director": "trio",
    "scenarios.running.finished": "os",
    "scenarios.running.fleet": "os signal subprocess time",
    "scenarios.running.guard": "threading time trio",
    "scenarios.running.listening": "trio",
    "scenarios.running.playing": "trio",
    "scenarios.running.real_run": "time trio",
    "scenarios.running.real_stage": "trio",
    "scenarios.running.run_forks": "os signal socket",
    "scenarios.running.virtual_run": "time trio",
    "scenarios.running.virtual_stage": "trio",
    "scenarios.running.waiting": "trio",
    "scenarios.questions": "time",
    "rocketmq_emulator._aio_client": "threading trio",
    "rocketmq_emulator._callbacks": "trio",
    "rocketmq_emulator._host": "trio",
    "rocketmq_emulator._portal": "os threading trio",
    "rocketmq_emulator.sync": "threading",
}


def imports(path: Path) -> frozenset[str]:
    """What a module imports when it runs; annotations under TYPE_CHECKING move nothing."""
    return imports_of(path).at_run_time


Layers: TypeAlias = tuple[tuple[str, ...], ...]


@cache
def layer_of(name: str, layers: Layers = LAYERS) -> tuple[int, str] | None:
    """How far up *name* stands, and in which room: the one with the longest name that fits."""
    fitting = [
        (level, room)
        for level, row in enumerate(layers)
        for room in row
        if name == room or name.startswith(room + ".")
    ]
    return max(fitting, key=lambda found: len(found[1]), default=None)


def is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


def test_imports_only_point_down() -> None:
    for path in paths():
        here = layer_of(module_of(path))
        if here is None:
            assert module_of(path) == "emulator", f"{path} stands in no layer"
        else:
            check_that_all_point_down(path, here)


def check_that_all_point_down(path: Path, here: tuple[int, str]) -> None:
    for name in imports(path):
        there = layer_of(name)
        if there is None or there[1] == here[1]:
            continue
        sideways = there[0] == here[0] and here[0] not in SAME_ROW_MAY_MEET
        assert there[0] <= here[0], f"{path} may not import {name}: imports only point down"
        assert not sideways, f"{path} may not import {name}: siblings never import each other"


@pytest.mark.parametrize("layers", INNER_LAYERS, ids=["broker", "client", "pipeline"])
def test_imports_inside_a_role_only_point_down(layers: Layers) -> None:
    counted = 0
    for path in paths():
        here = layer_of(module_of(path), layers)
        for name in imports_of(path).all if here else ():
            there = layer_of(name, layers)
            if here is None or there is None or there[1] == here[1]:
                continue
            counted += 1
            assert there[0] < here[0], f"{path} may not import {name}"
    assert counted > 20 or is_in("pipeline.session", layers[0])


def test_tables_read_facts_and_the_source_reads_bytes() -> None:
    for path in paths():
        for room, known in SEES_ONLY.items():
            if not is_in(module_of(path), (room,)):
                continue
            for name in imports(path):
                if name.split(".")[0] in PACKAGES:
                    assert is_in(name, known), f"{path} may not import {name}"


def test_only_shells_wait_read_clocks_or_touch_the_machine() -> None:
    for path in paths():
        touched = {word.split(".")[0] for word in imports(path)} & SHELL_WORDS
        allowed = set(SHELLS.get(module_of(path), "").split())
        unneeded = sorted(allowed - touched)
        assert touched <= allowed, f"{path} imports {sorted(touched)}: state stands apart from IO"
        assert not unneeded, f"{path} no longer needs {unneeded}: say so here"


def test_every_shell_exists() -> None:
    assert SHELLS.keys() <= {module_of(path) for path in paths()}


def test_the_virtual_world_knows_no_rocketmq() -> None:
    for path in paths():
        if not is_in(module_of(path), ("emulator.sim",)):
            continue
        for name in imports(path):
            if name.split(".")[0] in ("protocol", "emulator", "scenarios"):
                assert is_in(name, BYTES_ONLY), f"{path} may not import {name}: it moves bytes"

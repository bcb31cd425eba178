"""Former names of modules, from before the project was installed below one name.

A scenario file, a command line or a journal may still name ``emulator.client.consumer.pinned``.
Nothing is installed by such a name: a ``scenarios`` or ``protocol`` is the user's own.  A loader
that cannot import a module gets the text with its new name from here.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "rocketmq_emulator"
PACKAGES: Mapping[str, str] = {  # the packages once installed at the top level
    "emulator": PACKAGE,
    "protocol": f"{PACKAGE}.protocol",
    "scenarios": f"{PACKAGE}.scenarios",
    "pipeline": f"{PACKAGE}.pipeline",
}
# Modules that scenarios, strategies and programs may name and that have moved within their
# package.  All others kept their place, or no longer exist as modules.
MOVED: Mapping[str, str] = {
    "emulator.addresses": "text.values",
    "emulator.broker.broker": "broker.state.broker",
    "emulator.checks.checker": "checks.state.checker",
    "emulator.checks.completeness": "checks.judging.completeness",
    "emulator.checks.folding": "checks.state.violation",
    "emulator.checks.judging": "checks.judging.judging",
    "emulator.checks.reading": "checks.judging.reading",
    "emulator.checks.table": "checks.judging.table",
    "emulator.checks.violation": "checks.state.violation",
    "emulator.client.arguments": "client.settings.arguments",
    "emulator.client.config": "client.settings.config",
    "emulator.client.consumer.allocation": "client.consumer.group.allocation",
    "emulator.client.consumer.averagely_auto": "client.consumer.group.allocation",
    "emulator.client.consumer.consumer_config": "client.settings.config",
    "emulator.client.consumer.listeners": "client.consumer.group.listeners",
    "emulator.client.consumer.lite_pull_consumer": "client.consumer.pull.lite_pull_consumer",
    "emulator.client.consumer.pinned": "client.consumer.group.allocation",
    "emulator.client.consumer.process_queue": "client.consumer.group.process_queue",
    "emulator.client.consumer.pull_config": "client.settings.config",
    "emulator.client.consumer.pull_consumer": "client.consumer.pull.pull_consumer",
    "emulator.client.consumer.push_config": "client.settings.config",
    "emulator.client.consumer.push_consumer": "client.consumer.push.push_consumer",
    "emulator.client.consumer.rebalance": "client.consumer.group.rebalance",
    "emulator.client.errors": "errors.call_errors",
    "emulator.client.program": "client.instance.process",
    "emulator.client.setting_names": "client.settings.config",
    "emulator.clock": "clocks.clock",
    "emulator.cluster.admin": "admin.calls",
    "emulator.cluster.cluster_reader": "admin.cluster_reader",
    "emulator.cluster.dead_letters": "admin.dead_letters",
    "emulator.cluster.durations": "text.values",
    "emulator.cluster.embedded": "cluster.worlds.embedded",
    "emulator.cluster.faults.values": "cluster.fault_values",
    "emulator.cluster.node_process": "processes.node_process",
    "emulator.cluster.overview": "admin.overview",
    "emulator.cluster.processes": "cluster.worlds.processes",
    "emulator.cluster.real_world": "cluster.worlds.real_world",
    "emulator.cluster.settings": "processes.role_settings",
    "emulator.cluster.spawning": "processes.spawning",
    "emulator.cluster.tested": "testing.rocketmq",
    "emulator.cluster.virtual": "cluster.worlds.virtual",
    "emulator.config": "settings.config",
    "emulator.docstrings": "text.docstrings",
    "emulator.facts.brokers": "facts.servers",
    "emulator.facts.name_servers": "facts.servers",
    "emulator.facts.timers": "facts.stores",
    "emulator.journal": "facts.journal",
    "emulator.logs": "facts.logs",
    "emulator.nameserver.nameserver": "nameserver.state.nameserver",
    "emulator.net.errors": "errors.call_errors",
    "emulator.node": "processes.node",
    "emulator.node_forks": "processes.fork_server",
    "emulator.property_names": "settings.property_names",
    "emulator.quirks": "settings.quirks",
    "emulator.releases": "settings.releases",
    "emulator.server_rules": "settings.config",
    "emulator.setting_rules": "settings.setting_rules",
    "protocol.batch": "protocol.messages.batch",
    "protocol.binary_header": "protocol.command",
    "protocol.compression": "protocol.messages.compression",
    "protocol.delay_levels": "protocol.messages.delay_levels",
    "protocol.java_json": "protocol.java.java_json",
    "protocol.java_properties": "protocol.java.java_properties",
    "protocol.message": "protocol.messages.message",
    "protocol.message_ids": "protocol.messages.message_ids",
    "protocol.names": "protocol.messages.names",
    "protocol.perm": "protocol.flags",
    "protocol.properties": "protocol.messages.properties",
    "protocol.pull_flags": "protocol.flags",
    "protocol.records": "protocol.messages.records",
    "protocol.subscription": "protocol.messages.subscription",
    "protocol.sysflag": "protocol.flags",
    "protocol.tags": "protocol.messages.subscription",
    "protocol.validation": "protocol.messages.validation",
    "scenarios.allocation_question": "scenarios.catalog.allocation_question",
    "scenarios.client_ids": "scenarios.catalog.allocation_question",
    "scenarios.finding": "scenarios.catalog.finding",
    "scenarios.inspecting": "scenarios.after",
    "scenarios.library.group_strategies": "scenarios.library.mixed_groups",
    "scenarios.library.identity": "scenarios.library.mixed_groups",
    "scenarios.library.name_servers": "scenarios.library.failing_clusters",
    "scenarios.library.ownership": "scenarios.library.rebalancing",
    "scenarios.library.power": "scenarios.library.failing_clusters",
    "scenarios.library.producer_choice": "scenarios.library.producers",
    "scenarios.library.pulling": "scenarios.library.offsets",
    "scenarios.library.sharing": "scenarios.library.allocation",
    "scenarios.plan": "scenarios.plan.plan",
    "scenarios.problems": "scenarios.plan.problems",
    "scenarios.questions": "scenarios.catalog.questions",
    "scenarios.recording.clock": "scenarios.recording.run",
    "scenarios.recording.purity": "scenarios.recording.scenario",
    "scenarios.result": "scenarios.plan.result",
    "scenarios.running.functions": "scenarios.running.client_runner",
    "scenarios.running.listening": "scenarios.running.client_runner",
    "scenarios.running.loads": "scenarios.running.client_runner",
    "scenarios.running.replay": "scenarios.after.replay",
    "scenarios.running.shrinking": "scenarios.after.shrinking",
    "scenarios.running.sweep": "scenarios.sweeps.sweep",
    "scenarios.running.weather_sweep": "scenarios.sweeps.sweep",
    "scenarios.strategies": "scenarios.plan.strategies",
    "scenarios.strategy_judge": "scenarios.catalog.strategy_judge",
    "scenarios.telling": "scenarios.descriptions",
    "scenarios.timeline": "scenarios.plan.plan",
    "scenarios.timeline_picture": "scenarios.report.timeline_picture",
    "scenarios.validity": "scenarios.plan.validity",
    "scenarios.words": "scenarios.plan.plan",
}
IMPORT = re.compile(rf"\s*(?:from|import) ((?:{'|'.join(PACKAGES)})(?:\.\w+)*)\b")


def new_name(module: str) -> str | None:
    """The present name of a former *module*; None if it never existed, or no longer does."""
    if (moved := MOVED.get(module)) is not None:
        return f"{PACKAGE}.{moved}"
    top, dot, rest = module.partition(".")
    if top not in PACKAGES:
        return None
    name = f"{PACKAGES[top]}{dot}{rest}"
    return name if _exists(name) else None


def renamed(module: str, function: str = "") -> str:
    """A sentence with the present name of *module*; empty if it is no former name."""
    top = module.partition(".")[0]
    if top not in PACKAGES or _exists(module):
        return ""
    colon = f":{function}" if function else ""
    if (name := new_name(module)) is not None:
        return f"{module}{colon} is {name}{colon} now"
    if _exists(top):
        return ""  # a user's own package, which has no such module
    parts = module.split(".")
    while (package := new_name(".".join(parts))) is None:
        parts.pop()
    return f"{module} is no longer a module: look below {package}"


def renamed_import(error: BaseException) -> str:
    """The same sentence for the import that raised *error*: a line of a user's file."""
    if isinstance(error, ImportError):
        for module in _imported_in(error):
            if text := renamed(module):
                return text
    return ""


def _imported_in(error: ImportError) -> Iterator[str]:
    """The modules that the lines of the traceback import, the innermost first."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if found := IMPORT.match(frame.line or ""):
            yield found[1]


def _exists(module: str) -> bool:
    """Whether it can be imported; false for a folder of this project's own checkout."""
    try:
        found = find_spec(module)
        ours = find_spec(PACKAGES[module]) if found and module in PACKAGES else None
    except (ImportError, ValueError):  # its package is missing, or refuses that name
        return False
    return found is not None and not (ours and _file_of(found) == _file_of(ours))


def _file_of(found: ModuleSpec) -> Path:
    return Path(found.origin or "").resolve()

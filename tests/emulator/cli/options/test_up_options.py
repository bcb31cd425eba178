"""The options that ``up`` reads before it loads its parser: the parser reads the same values."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.cli.options.up_options import (
    PLAIN_SWITCHES,
    PLAIN_WITH_VALUE,
    brokers_to_start_early,
)
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.cli.command_line import ROOT


def command_of(name):
    return typer.main.get_command(application(name)).commands[name]


def parameters():
    command = command_of("up")
    return [parameter for parameter in command.params if parameter.name != "help"]


CHANGES_NODES = {"--embedded", "--with-links", "--journal", "--log", "-v", "--log-format"}


def test_options_that_leave_nodes_as_they_are_take_a_value_or_not_as_the_command_says() -> None:
    flags = {flag: parameter.is_flag for parameter in parameters() for flag in parameter.opts}
    assert flags.keys() == PLAIN_WITH_VALUE | PLAIN_SWITCHES | CHANGES_NODES
    assert not any(flags[flag] for flag in PLAIN_WITH_VALUE)
    assert all(flags[flag] for flag in PLAIN_SWITCHES)


@pytest.mark.parametrize("flag", sorted(CHANGES_NODES))
def test_an_option_that_changes_nodes_starts_none_early(flag) -> None:
    assert brokers_to_start_early([flag]) == brokers_to_start_early(["--port=0", flag, "x"]) == 0


def test_the_default_number_of_brokers_is_the_command_s() -> None:
    (brokers,) = [p for p in parameters() if p.name == "brokers"]
    assert brokers_to_start_early([]) == brokers.default


def test_no_command_forges_the_signature_of_its_function() -> None:
    forged = "__sign" + "ature__"
    for folder in ("emulator", "protocol", "scenarios", "pipeline", "tools", "docs", "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            assert forged not in file.read_text(), file


@pytest.mark.parametrize(
    ("arguments", "brokers"),
    [
        ((), 2),
        (("--brokers", "3"), 3),
        (("--brokers=3", "--brokers", "4"), 4),  # the last one counts
        (("--port", "0", "--release=5.3.3", "--store", "x", "--set", "perm=6"), 2),
        (("--store", "--embedded"), 2),  # a folder of that name
        (("--store", "--brokers", "--brokers", "3"), 3),
        (("--brokers", "3", "--slaves", "2", "--sync-master"), 9),
        (("--slaves", "1", "--acting-master"), 4),
        (("--slaves", "one"), 0),
        (("--brokers", "0"), 0),
        (("--brokers", "many"), 0),
        (("--brokers", "-1"), 0),
        (("--brokers",), 0),
        (("--brokers", "101"), 0),
        (("--embedded",), 0),
        (("--journal", "x"), 0),
        (("--journal=x",), 0),
        (("-v",), 0),
        (("--help",), 0),
        (("--no-such-option",), 0),
    ],
)
def test_nodes_start_early_only_when_it_is_sure_that_they_are_wanted(arguments, brokers) -> None:
    assert brokers_to_start_early(arguments) == brokers


def test_nothing_slow_is_loaded_before_nodes_are_started_early() -> None:
    modules = "rocketmq_emulator.cli, rocketmq_emulator.processes.spawning"
    code = f"import {modules}, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert not {b"msgspec", b"trio", b"typer", b"rocketmq_emulator.facts"} & set(
        loaded.stdout.split()
    )


def test_what_up_does_not_need_before_its_nodes_are_ready_is_loaded_later() -> None:
    modules = "rocketmq_emulator.cli.commands.up, rocketmq_emulator.cluster.worlds.processes"
    code = f"import {modules}, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    later = {
        b"trio",
        b"importlib.metadata",
        b"h11",
        b"http.client",
        b"rich.live",
        b"rocketmq_emulator.protocol.catalog",
        b"structlog",
    }
    assert not later & set(loaded.stdout.split())


@pytest.mark.parametrize("command", ["up", "broker", "nameserver"])
def test_the_help_of_journal_says_how_long_it_may_become(command) -> None:
    parameters = command_of(command).params
    (journal,) = [parameter for parameter in parameters if parameter.name == "journal"]
    config = BrokerConfig()
    assert config.journal_files_max == 4
    assert "four files of" in journal.help
    assert f"{config.journal_bytes_max // 2**20} MiB" in journal.help

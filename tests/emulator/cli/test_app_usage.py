"""Answers of the command line itself: help, version, completion, and errors of one form."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from importlib import metadata
from pathlib import Path

import pytest
import typer

from rocketmq_emulator.cli.app import COMMANDS, application, with_new_spellings
from rocketmq_emulator.cli.options.errors import EXIT_CODES
from tests.support.cli.command_line import PATIENCE_S, RMQEMU, ROOT, environment
from tests.support.cli.in_process import commands
from tests.support.terminal import Terminal

run = commands()


def paths_of(command, path=()):
    """The words of every command, from the application down."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from paths_of(below, (*path, name))


PATHS = list(paths_of(typer.main.get_command(application())))


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_has_a_short_help_without_boxes(path) -> None:
    text = run(*path, "-h").stdout
    assert text.startswith(f"Usage: {' '.join(('rmqemu', *path))}")
    assert text == run(*path, "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search("[╭│╰─]", text)


def test_a_command_loads_no_other_one() -> None:
    app = "import rocketmq_emulator.cli.app as cli; cli.application('status')"
    code = f"{app}; import sys; print(*sys.modules)"
    loaded = subprocess.run([RMQEMU[0], "-c", code], capture_output=True, check=True, text=True)
    places = {f"rocketmq_emulator.cli.{place.module}" for place in COMMANDS.values()}
    assert places & set(loaded.stdout.split()) == {"rocketmq_emulator.cli.commands.status"}


def test_the_first_help_names_the_exit_codes() -> None:
    text = " ".join(run("-h").stdout.split())
    assert EXIT_CODES in text


def test_the_version_names_what_a_report_needs() -> None:
    version = metadata.version("rocketmq-emulator")
    assert re.fullmatch(
        rf"rmqemu {version} \(Python 3\.\d+\.\d+; behaves as RocketMQ 4\.9\.7.*\)\n",
        run("--version").stdout,
    )


@pytest.mark.parametrize(
    ("arguments", "complaint", "where"),
    [
        (("produce", "--topik", "x"), "no such option: --topik", "produce"),
        (("produce",), "missing option '--topic'", "produce"),
        (("group", "describe"), "missing argument 'GROUP'", "group describe"),
        (("nope",), "no such command 'nope'", None),
        (("topic", "nope"), "no such command 'nope'", "topic"),
        (
            ("topic", "create", "t", "--queues", "0"),
            "--queues is a whole number from 1 to 65535, not '0'",
            "topic create",
        ),
        (("status", "-n", "banana"), "an address looks like 127.0.0.1:9876", "status"),
        (("status", "-n", "127.0.0.1:99999"), "127.0.0.1:99999", "status"),
        (("status", "-n", "127.0.0.1:"), "127.0.0.1:", "status"),
        (("status", "-n", ""), "it is empty; give HOST:PORT", "status"),
        (("up", "--brokers", "two"), "--brokers is a whole number, not 'two'", "up"),
        (("run", "x", "--jobs", "0"), "--jobs is a whole number of at least 1, not '0'", "run"),
        (("fault", "remove", "x"), "ID… is a whole number, not 'x'", "fault remove"),
        (("up", "--log-format", "x"), "--log-format is one of console, json, not 'x'", "up"),
        (("up", "a", "b"), "rmqemu: unexpected: a b", "up"),
    ],
)
def test_bad_use_is_one_line_and_says_where_to_read_on(arguments, complaint, where) -> None:
    first, second = run(*arguments, code=2).stderr.splitlines()
    assert first.startswith("rmqemu: ")
    assert complaint in first
    assert second == f'Try "{" ".join(filter(None, ("rmqemu", where)))} -h".'


def test_an_address_in_the_environment_is_checked_like_one_on_the_command_line() -> None:
    done = commands(NAMESRV_ADDR="banana")("topic", "list", code=2)
    assert "NAMESRV_ADDR" in done.stderr


def test_a_command_without_its_subcommand_shows_its_help() -> None:
    assert "Usage: rmqemu topic" in run("topic", code=2).output


def test_where_nobody_answers_the_address_is_named_once_and_soon() -> None:
    began_s = time.monotonic()
    (line,) = run("status", "-n", "127.0.0.1:1", code=3).stderr.splitlines()
    assert line.count("127.0.0.1:1") == 1
    assert "connection refused" in line
    assert time.monotonic() - began_s < 3


def test_a_name_that_cannot_be_resolved_is_said_so() -> None:
    (line,) = run("topic", "list", "-n", "no.such.host.invalid:9876", code=3).stderr.splitlines()
    assert "cannot be resolved" in line


@pytest.mark.parametrize("arguments", [("--version",), ("topic", "-h")], ids=" ".join)
def test_a_full_disk_behind_standard_output_is_one_line(arguments) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*RMQEMU, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"rmqemu: cannot write to standard output: No space left on device\n"


def test_without_a_standard_output_nothing_is_said() -> None:
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *RMQEMU, "--version"],
        capture_output=True,
        env=environment(),
        check=False,
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


GROUPS = sorted({path[:-1] for path in PATHS if len(path) > 1})


@pytest.mark.parametrize("path", [(), *GROUPS], ids=" ".join)
def test_no_summary_in_a_list_of_commands_is_cut(path) -> None:
    _, usage, listed = run(*path, "-h").stdout.partition("\n")
    assert usage
    assert "..." not in listed


def test_the_first_help_lists_each_command_once_in_its_panel() -> None:
    text = run("-h").stdout
    panels = dict.fromkeys(place.panel for place in COMMANDS.values())
    titles = [line.removesuffix(":") for line in text.splitlines() if re.match(r"\S.*:$", line)]
    assert titles == [*panels, "Options"]
    listed = re.findall(r"^  ([a-z]+) +[A-Z]", text, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_each_option_shows_its_choices_or_one_word_and_what_it_is(path) -> None:
    text = run(*path, "-h").stdout
    assert not re.search(r"<\w+|list\[|\bVALUE\b(?<!=VALUE)| range", text)
    options = re.findall(r"^  (-.*?)(?:  +(.*)|\n +(.*))$", text, re.MULTILINE)
    assert options
    for names, beside, below in options:
        assert beside or below, names


def test_a_terminal_gets_colours_and_at_most_its_width() -> None:
    with Terminal([*RMQEMU, "fault", "add", "-h"], columns=80, rows=50) as terminal:
        assert terminal.wait_ended() == 0
        assert terminal.wraps == 0
        assert terminal.style_of("slow_link").fg == "cyan"
    with Terminal([*RMQEMU, "consume", "-h"], columns=60, rows=60) as terminal:
        assert terminal.wait_ended() == 0
        assert terminal.wraps == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sweep x --to d --cores 2", "sweep x --output d --jobs 2"),
        ("tables x --to=d", "tables x --output=d"),
        ("dlq replay g --to t", "dlq replay g --topic t"),
        ("group reset g --to latest", "group reset g --to latest"),
        ("dlq list --to t", "dlq list --to t"),
    ],
)
def test_options_have_one_name_and_documented_old_ones_are_understood(old, new) -> None:
    assert with_new_spellings(old.split()) == new.split()


COMPLETE = """
eval "$(rmqemu --show-completion)"
COMP_WORDS=(rmqemu topic de) COMP_CWORD=2
_rmqemu_completion rmqemu
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completes_a_subcommand(tmp_path) -> None:
    installed = tmp_path / "rmqemu"
    installed.write_text(f'#!/bin/sh\nexec {" ".join(RMQEMU)} "$@"\n')
    installed.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", COMPLETE],
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
        check=False,
    )
    assert done.stdout.split() == [b"describe", b"delete"], done.stderr


def test_make_alone_lists_every_target() -> None:
    outside = {k: v for k, v in os.environ.items() if k not in ("MAKELEVEL", "MAKEFLAGS")}
    make = subprocess.run(["make"], cwd=ROOT, env=outside, capture_output=True, check=True)
    listed = make.stdout.decode()  # not changed by a make that runs these tests
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [line.split()[:2] for line in listed.splitlines()] == [
        ["make", target] for target in targets[1].split()
    ]


CTRL_C_WHILE_CODE_LOADS = """
import os, signal, sys
import rocketmq_emulator.cli

class Interrupts:
    def find_spec(self, name, *_):
        if name == "rocketmq_emulator.cli.app":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
rocketmq_emulator.cli.main()
"""

CTRL_C_WHILE_OPTIONS_ARE_READ = """
import os, signal
import rocketmq_emulator.cli
import typer.main

read = typer.main.get_params_from_function

def interrupted(callback):
    os.kill(os.getpid(), signal.SIGINT)
    return read(callback)

typer.main.get_params_from_function = interrupted
rocketmq_emulator.cli.main()
"""


@pytest.mark.parametrize("code", [CTRL_C_WHILE_CODE_LOADS, CTRL_C_WHILE_OPTIONS_ARE_READ])
def test_ctrl_c_while_a_command_loads_its_code_shows_no_traceback(code) -> None:
    command = [RMQEMU[0], "-c", code, "status"]
    done = subprocess.run(command, capture_output=True, env=environment(), check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == b""

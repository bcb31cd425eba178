"""docs/commands.md: every command, run in the page's order, prints the lines of the page."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from rocketmq_emulator.cli.messages.printer import FIELDS
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.cli.command_line import ROOT
from tests.support.cli.in_process import commands, give_up

PAGE = (ROOT / "docs" / "commands.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[str, list[str], int]]:
    """Each command with the lines it prints and its exit code."""
    found: list[tuple[str, list[str], int]] = []
    for block in BLOCK.findall(PAGE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], [], 0))
            elif line.startswith("exit code "):
                found[-1] = (*found[-1][:2], int(line.rpartition(" ")[2]))
            else:
                found[-1][1].append(line)
    return found


def matches(line: str, wanted: str) -> bool:
    """Whether the lines are equal; "…" in *wanted* matches any text, and blanks are merged."""
    pattern = ".+".join(re.escape(part) for part in " ".join(wanted.split()).split("…"))
    return re.fullmatch(pattern, " ".join(line.split())) is not None


def printed(command: str, namesrv: str) -> tuple[list[str], int]:
    """The command's lines, without rules and blank lines, and its exit code."""
    left, pipe, right = command.rpartition(" | ")
    run = subprocess.run(["sh", "-c", left], capture_output=True, check=True)
    command_of = commands(NAMESRV_ADDR=namesrv)
    done = command_of(*shlex.split(right)[1:], stdin=run.stdout if pipe else b"", code=None)
    lines = [line for line in done.output.splitlines() if line.strip(" ─")]
    return lines, done.exit_code


def last_words(line: str) -> list[str]:
    return line.split()[-2:]


def test_every_command_of_the_page_prints_what_stands_below_it() -> None:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        reset = ("group", "reset", "billing", "--topic=orders")
        for command, wanted, code in shown():
            if command == "rmqemu dlq list":
                commands(NAMESRV_ADDR=cluster.namesrv)(*reset)
                give_up(cluster, "orders", "billing", 2, "paid")
            lines, exit_code = printed(command, cluster.namesrv)
            assert exit_code == code, (command, lines)
            assert len(lines) == len(wanted), (command, lines)
            if re.match("rmqemu (consume .*--group|dlq list billing)", command):
                lines.sort(key=last_words)  # the order of queues is undefined
                wanted.sort(key=last_words)
            for line, pattern in zip(lines, wanted, strict=True):
                assert matches(line, pattern), (command, line)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_a_format_has_a_row(name) -> None:
    assert f"| `{{{name}}}` | {FIELDS[name][1]} |" in PAGE

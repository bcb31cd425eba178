"""Runs the commands on one cluster; values that differ from run to run are masked."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.clusters import Cluster
from tests.mqadmin.member import Member
from tests.mqadmin.steps import STEPS, UNIQUE, Ask, Commit, Join, Leave, Put, Step
from tests.mqadmin.tool import AdminTool
from tests.sdk.administration import ask
from tests.support.paths import GOLDEN

Outcome = tuple[str, list[str]]  # the command line as in ``steps``, its output

SEND_MESSAGE, GET_MAX_OFFSET, UPDATE_CONSUMER_OFFSET = 10, 30, 15
READABLE_S_MAX = 10.0
BORN_MS = 1_700_000_000_000

# The order matters: longer patterns come first.
CHANGING = (
    (re.compile(r"\r"), ""),
    (re.compile(r"\b7F000001[0-9A-F]{8}(?=[0-9A-F]{16}\b)"), "BROKER+"),  # an offset id
    (re.compile(rf"\b(?!{UNIQUE})([0-9A-F]{{56}}|[0-9A-F]{{32}})\b"), "UNIQUE-KEY"),
    (re.compile(r"(?<!10\.0\.0\.7)@\d+(#\d+)?"), "@PROCESS"),
    (re.compile(r"\b(?!10\.0\.0\.)\d{1,3}(\.\d{1,3}){3}:\d+"), "ADDRESS"),
    (re.compile(r"\b(?!10\.0\.0\.)\d{1,3}(\.\d{1,3}){3}\b"), "IP"),
    (re.compile(r"\d{4}-\d\d-\d\d[ #T]\d\d:\d\d:\d\d([:,.]\d{3})?"), "TIME"),
    (re.compile(r"\b20\d{12,15}\b"), "TIME"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "MS"),
    (re.compile(r"(?<=istenPort = )\d+"), "PORT"),
    (re.compile(r"(?<=Path =|Home =).*"), " FILE"),
    (re.compile(r"= /\S+"), "= FILE"),
    (re.compile(r"rt=\d+ms"), "rt=…"),
    (re.compile(r"(?<=true )\d+$|^Avg RT: .*"), "…"),
)
# Commands that print changing figures: only the names of the figures are compared.
FIGURES = {
    "brokerStatus": re.compile(r"(_(/\S+|memory|…))?\s*:.*"),
    "statsAll": re.compile(r"(?<= )\d+(\.\d+)?( \d+(\.\d+)?)*$"),
    "clusterList": re.compile(r"\d+\.\d+(\(\d+, ?\d+ms\))?"),
}
# Stack traces, logback's messages about itself, and producers of earlier commands.
LEFT_OUT = re.compile(
    r"^\s+(at |\.\.\. \d+ more)|^\d\d:\d\d:\d\d,\d+ \|-|^producer group \((?!cashiers\))"
)


def outcomes_of(release: str, cluster: Cluster, tool: AdminTool, files: Path) -> Iterator[Outcome]:
    """Run each step; yield each command that *release* has, with its output."""
    (broker,) = cluster.brokers.values()
    known = {"broker": broker, "namesrv": cluster.namesrv, "files": str(files)}
    member: Member | None = None
    for step in STEPS:
        if isinstance(step, Ask):
            if release in step.releases:
                yield step.line, shown(step.line, tool.run(_arguments(step, known)), known)
        elif isinstance(step, Join):
            member = Member(broker)
        elif isinstance(step, Leave):
            assert member is not None
            member.close()
        else:
            msg_id = _do(step, broker)
            known.setdefault("first", msg_id)


def shown(command: str, text: str, known: dict[str, str]) -> list[str]:
    """The lines of an output, without stack traces; changing values are replaced by words."""
    for name in ("broker", "namesrv", "files"):
        text = text.replace(known[name], name.upper())
    figures = FIGURES.get(command.split(maxsplit=1)[0])
    changing = CHANGING if figures is None else (*CHANGING, (figures, "…"))
    lines = []
    for line in text.splitlines():
        if LEFT_OUT.search(line):
            continue
        line = " ".join(line.split())  # noqa: PLW2901 - it is still that line
        for pattern, stand_in in changing:
            line = pattern.sub(stand_in, line)  # noqa: PLW2901 - the same
        if line:
            lines.append(line)
    return lines


def recorded(release: str) -> dict[str, list[str]]:
    """The outputs of a real cluster of *release*, by command line."""
    lines = _path(release).read_text(encoding="utf-8").splitlines()
    return {row["command"]: row["output"] for row in map(json.loads, lines)}


def record(release: str, outcomes: dict[str, list[str]]) -> None:
    """Overwrite the recorded outputs."""
    rows = ({"command": line, "output": output} for line, output in outcomes.items())
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    _path(release).write_text(text, encoding="utf-8")


def by_command(outcomes: Iterator[Outcome]) -> dict[str, list[str]]:
    """The outputs by command line; a repeated command line gets a number."""
    found: dict[str, list[str]] = {}
    for line, output in outcomes:
        title, number = line, 1
        while title in found:
            number += 1
            title = f"{line} ({number})"
        found[title] = output
    return found


def _arguments(step: Ask, known: dict[str, str]) -> list[str]:
    command, *rest = step.line.format(**known).split()
    return [command, "-n", known["namesrv"], *rest]


def _do(step: Step, broker: str) -> str:
    if isinstance(step, Commit):
        fields: dict[str, Any] = {
            "consumerGroup": step.group,
            "topic": step.topic,
            "queueId": step.queue,
            "commitOffset": step.offset,
        }
        answer = ask(broker, UPDATE_CONSUMER_OFFSET, _texts(fields))
        assert answer.code == 0, answer.remark
        return ""
    assert isinstance(step, Put)
    fields = {
        "producerGroup": "cashiers",
        "topic": step.topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": step.queue,
        "sysFlag": 0,
        "bornTimestamp": BORN_MS,
        "flag": 0,
        "properties": step.properties,
        "reconsumeTimes": 0,
        "unitMode": "false",
    }
    answer = ask(broker, SEND_MESSAGE, _texts(fields), step.body)
    assert answer.code == 0, answer.remark
    reply = answer.fields()
    _wait_readable(broker, step, int(reply["queueOffset"]))
    return reply["msgId"]


def _wait_readable(broker: str, step: Put, offset: int) -> None:
    fields = {"topic": step.topic, "queueId": str(step.queue)}
    deadline_s = time.monotonic() + READABLE_S_MAX
    while int(ask(broker, GET_MAX_OFFSET, fields).fields()["offset"]) <= offset:
        assert time.monotonic() < deadline_s, "a stored message does not become readable"
        time.sleep(0.02)


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items()}


def _path(release: str) -> Path:
    return GOLDEN / f"mqadmin-{release}.jsonl"

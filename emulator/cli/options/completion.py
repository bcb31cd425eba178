"""Values for the shell's completion: nodes, topics, groups, scenarios, releases, worlds, faults.

A completer asks the running cluster for ``WAIT_S_MAX`` at most, in a thread that the process does
not wait for, and answers nothing on any error: a shell shows neither an error nor a delay.
Each imports what it needs when it is called: ``up`` starts without it.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import typer

if TYPE_CHECKING:
    from rocketmq_emulator.admin.overview import Overview

WAIT_S_MAX = 0.5
CALL_MS_MAX = 200  # of each call for topics and groups: other brokers' names are still found
SCENARIO_FILES = (".toml", ".py")
DECLARED = re.compile(
    r"^@(?:scenario|question)\b.*\n(?:(?!@|async def|def).*\n)*(?:async )?def (\w+)", re.MULTILINE
)

Completer: TypeAlias = Callable[[typer.Context, str], list[str]]
Look: TypeAlias = Callable[[typer.Context, str], Iterable[str]]


def within_time(look: Look) -> Completer:
    """*look* as a completer: in ``WAIT_S_MAX`` seconds, or nothing; also nothing on any error."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = []
        looker = threading.Thread(target=_look, args=(look, ctx, incomplete, found), daemon=True)
        looker.start()
        looker.join(WAIT_S_MAX)
        return sorted({name for name in [*found] if name.startswith(incomplete)})

    return complete


def _look(look: Look, ctx: typer.Context, incomplete: str, found: list[str]) -> None:
    with suppress(Exception):  # a shell has no place for an error
        found += look(ctx, incomplete)


def one_of(words: Iterable[str]) -> Completer:
    """A completer of fixed *words*, in their order."""
    known = [*words]

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        del ctx
        return [word for word in known if word.startswith(incomplete)]

    return complete


def _namesrv(ctx: typer.Context) -> str:
    from rocketmq_emulator.cli.options.shared import NAMESRV  # noqa: PLC0415  # see above

    return ctx.params.get("namesrv") or NAMESRV


def _nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of nodes; after ``broker-a+`` or ``broker-a,`` those of the next node."""
    from rocketmq_emulator.cluster.control.client import find_control  # noqa: PLC0415  # see above

    before = incomplete[: max(incomplete.rfind(mark) for mark in "+,") + 1]
    nodes = find_control(ctx.params.get("control") or "", _namesrv(ctx)).nodes()
    return [before + node.name for node in nodes]


def _overview(ctx: typer.Context) -> Overview:
    from rocketmq_emulator.cli.options.shared import read_cluster  # noqa: PLC0415  # see above

    return read_cluster(_namesrv(ctx), CALL_MS_MAX)


def _topics(ctx: typer.Context, incomplete: str) -> list[str]:
    del incomplete
    return [topic.name for topic in _overview(ctx).topics]


def _groups(ctx: typer.Context, incomplete: str) -> list[str]:
    del incomplete
    return [group.name for group in _overview(ctx).groups]


def _scenarios(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the library, files of the folder, and after ``FILE.py:`` what that file declares.

    The files are searched, not imported: imports would take longer than a completer may.
    """
    del ctx
    place, colon, _ = incomplete.partition(":")
    if colon:
        return [f"{place}:{name}" for name in DECLARED.findall(Path(place).read_text())]
    names = ["weather"]
    for path in Path(find_library()).iterdir():
        names += DECLARED.findall(path.read_text()) if path.suffix == ".py" else ()
        names += [path.stem] if path.suffix == ".toml" else ()
    folder, slash, begin = incomplete.rpartition("/")
    for path in Path(f"{folder}{slash}" or ".").iterdir():
        if path.name.startswith(begin) and (path.is_dir() or path.suffix in SCENARIO_FILES):
            names.append(f"{folder}{slash}{path.name}{'/' * path.is_dir()}")
    return names


def find_library() -> str:
    """The folder of the library of scenarios, without an import of it."""
    spec = importlib.util.find_spec("rocketmq_emulator.scenarios.library")
    assert spec is not None, "it is in the wheel"
    return str(Path(str(spec.origin)).parent)


def _releases(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    del ctx, incomplete
    from rocketmq_emulator.settings.releases import KNOWN_RELEASES  # noqa: PLC0415  # see above

    return KNOWN_RELEASES


complete_node = within_time(_nodes)
complete_topic = within_time(_topics)
complete_group = within_time(_groups)
complete_scenario = within_time(_scenarios)
complete_release = within_time(_releases)

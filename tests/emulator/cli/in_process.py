"""Running the command line inside the test's process: quick, but without pipes and signals."""

from __future__ import annotations

from collections.abc import Callable

import trio
from typer.testing import CliRunner, Result

from emulator.cli.app import app
from emulator.cli.tools import add_tools
from emulator.client import PushConsumer

Run = Callable[..., Result]
PATIENCE_S = 30


def commands(**environment: str) -> Run:
    """``run(*arguments, stdin="", code=0)``, which checks the exit code."""
    if "demo" not in {command.callback.__name__ for command in app.registered_commands}:
        add_tools(app)
    runner = CliRunner(env=environment)

    def run(*arguments: str, stdin: str | bytes = "", code: int = 0) -> Result:
        done = runner.invoke(app, list(arguments), input=stdin)
        assert done.exit_code == code, done.output
        return done

    return run


def give_up(cluster, topic: str, group: str, count: int, tags: str = "*") -> None:
    """A member of *group* gives up *count* messages of *topic* at its first try."""

    async def run() -> None:
        refused: set[str] = set()
        done = trio.Event()

        async def refuse(messages) -> None:
            refused.update(message.msg_id for message in messages)
            if len(refused) == count:
                done.set()
            raise ValueError("never")

        settings = {"namesrv": cluster.namesrv, "group": group, "reconsume_times_max": 0}
        start = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        with trio.fail_after(PATIENCE_S):
            async with PushConsumer(refuse, {topic: tags}, **settings, **start):
                await done.wait()

    trio.run(run)

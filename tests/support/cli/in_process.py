"""Running the command line inside the test's process: quick, but without pipes and signals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import trio
from typer.testing import CliRunner, Result

from rocketmq_emulator.cli.app import COMMANDS, application
from rocketmq_emulator.client import PushConsumer
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.protocol.messages.message import MessageExt

Run = Callable[..., Result]
PATIENCE_S = 30


cached = cache(application)


def commands(**environment: str) -> Run:
    """``run(*arguments, stdin="", code=0)``, which checks the exit code unless *code* is None."""
    runner = CliRunner(env=environment)

    def run(*arguments: str, stdin: str | bytes = "", code: int | None = 0) -> Result:
        wanted = arguments[0] if arguments and arguments[0] in COMMANDS else ""
        done = runner.invoke(cached(wanted), list(arguments), input=stdin)
        assert code in (None, done.exit_code), done.output
        return done

    return run


def give_up(cluster: RealWorld, topic: str, group: str, count: int, tags: str = "*") -> None:
    """A member of *group* fails *count* messages of *topic*; they become dead letters at once."""

    async def run() -> None:
        refused: set[str] = set()
        done = trio.Event()

        async def refuse(messages: list[MessageExt]) -> None:
            refused.update(message.msg_id for message in messages)
            if len(refused) == count:
                done.set()
            raise ValueError("never")

        settings: dict[str, Any] = {
            "namesrv": cluster.namesrv,
            "group": group,
            "reconsume_times_max": 0,
        }
        settings["consume_from"] = "CONSUME_FROM_FIRST_OFFSET"
        with trio.fail_after(PATIENCE_S):
            async with PushConsumer(refuse, {topic: tags}, **settings):
                await done.wait()

    trio.run(run)

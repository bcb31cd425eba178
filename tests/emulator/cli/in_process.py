"""Running the command line inside the test's process: quick, but without pipes and signals."""

from __future__ import annotations

from collections.abc import Callable

from typer.testing import CliRunner, Result

from emulator.cli.app import app
from emulator.cli.tools import add_tools

Run = Callable[..., Result]


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

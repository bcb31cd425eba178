"""The commands about scenarios: run one, look at what it did, compare strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cli.explain import diff, explain
from emulator.cli.replay import replay, shrink
from emulator.cli.report import report
from emulator.cli.run import run
from emulator.cli.scenario import app as scenario_commands
from emulator.cli.strategy import app as strategy_commands

if TYPE_CHECKING:
    import typer


def add_scenario_tools(app: typer.Typer) -> None:
    """Give them to *app*; they are loaded with this module."""
    app.command()(run)
    app.command()(report)
    app.command()(replay)
    app.command()(shrink)
    app.command()(explain)
    app.command()(diff)
    app.add_typer(strategy_commands, name="strategy")
    app.add_typer(scenario_commands, name="scenario")

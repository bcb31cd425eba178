"""The commands that use a running cluster, and ``status``, which only shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cli.advancing import advance
from emulator.cli.consume import consume
from emulator.cli.demo.command import demo
from emulator.cli.dlq import app as dlq_commands
from emulator.cli.errors import plain_errors
from emulator.cli.explain import diff, explain
from emulator.cli.fault import app as fault_commands
from emulator.cli.groups import app as group_commands
from emulator.cli.message import app as message_commands
from emulator.cli.nodes import add_node_commands
from emulator.cli.produce import produce
from emulator.cli.replay import replay, shrink
from emulator.cli.report import report
from emulator.cli.run import run
from emulator.cli.scenario import app as scenario_commands
from emulator.cli.screens import cluster_screen
from emulator.cli.shared import NAMESRV, AsJson, Namesrv, check_complete, read_cluster, show_as
from emulator.cli.strategy import app as strategy_commands
from emulator.cli.topics import app as topic_commands
from emulator.cli.watch import watch

if TYPE_CHECKING:
    import typer


def add_tools(app: typer.Typer) -> None:
    """Give them to *app*; they are loaded with this module."""
    app.command()(demo)
    app.command()(status)
    app.command()(produce)
    app.command()(consume)
    app.command()(watch)
    app.command()(run)
    app.command()(report)
    app.command()(replay)
    app.command()(shrink)
    app.command()(explain)
    app.command()(diff)
    add_node_commands(app)
    app.command()(advance)
    app.add_typer(fault_commands, name="fault")
    app.add_typer(message_commands, name="message")
    app.add_typer(dlq_commands, name="dlq")
    app.add_typer(topic_commands, name="topic")
    app.add_typer(group_commands, name="group")
    app.add_typer(strategy_commands, name="strategy")
    app.add_typer(scenario_commands, name="scenario")


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster.  Exit code 5 if a broker of it does not answer."""
    with plain_errors():
        overview = read_cluster(namesrv)
        show_as(overview, cluster_screen, as_json=as_json)
        check_complete(overview)

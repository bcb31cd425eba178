"""The commands that use a running cluster, and ``status``, which only shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cli.advancing import advance
from emulator.cli.consume import consume
from emulator.cli.demo.command import demo
from emulator.cli.dlq import app as dlq_commands
from emulator.cli.errors import plain_errors
from emulator.cli.fault import app as fault_commands
from emulator.cli.groups import app as group_commands
from emulator.cli.message import app as message_commands
from emulator.cli.nodes import add_node_commands
from emulator.cli.produce import produce
from emulator.cli.screens import cluster_screen
from emulator.cli.shared import NAMESRV, AsJson, Namesrv, check_complete, read_cluster, show_as
from emulator.cli.topics import app as topic_commands
from emulator.cli.watch import watch

if TYPE_CHECKING:
    import typer


def add_tools(app: typer.Typer, wanted: str = "") -> None:
    """Give them to *app*, and those for scenarios unless *wanted* is one of these here.

    Scenarios bring checkers, reports and a runner along, which take half a second to load.
    """
    app.command()(demo)
    app.command()(status)
    app.command()(produce)
    app.command()(consume)
    app.command()(watch)
    add_node_commands(app)
    app.command()(advance)
    app.add_typer(fault_commands, name="fault")
    app.add_typer(message_commands, name="message")
    app.add_typer(dlq_commands, name="dlq")
    app.add_typer(topic_commands, name="topic")
    app.add_typer(group_commands, name="group")
    if wanted not in _names(app):
        from emulator.cli.scenario_tools import add_scenario_tools  # noqa: PLC0415  # see above

        add_scenario_tools(app)


def _names(app: typer.Typer) -> set[str | None]:
    commands = {
        command.name or (command.callback and command.callback.__name__)
        for command in app.registered_commands
    }
    return commands | {str(group.name) for group in app.registered_groups}


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster.  Exit code 5 if a broker of it does not answer."""
    with plain_errors():
        overview = read_cluster(namesrv)
        show_as(overview, cluster_screen, as_json=as_json)
        check_complete(overview)

"""``status``: brokers, topics and groups of a running cluster, and which brokers answer.

Of a running ``up`` it also shows the faults and the reply rules that hold, and the journals that
lack facts; it learns them from the control address, which other clusters do not have.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from rich.console import Group

from rocketmq_emulator.admin.calls import AdminError
from rocketmq_emulator.cli.options.errors import errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    check_complete,
    read_cluster,
    show,
    show_json,
)
from rocketmq_emulator.cli.screens.cluster_tables import cluster_screen
from rocketmq_emulator.cli.screens.held_changes import HeldChange, held_changes, held_sheet
from rocketmq_emulator.cluster.control.client import ControlClient, announced_control

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.bodies.extensions import ReplyRuleState


def status(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a running cluster.  Exit code 5 if a broker of it does not answer."""
    with errors_as_exit_codes():
        overview = read_cluster(namesrv)
        control = announced_control(namesrv)
        held = () if control is None else _held_changes(control)
        if as_json:
            show_json({**msgspec.structs.asdict(overview), "holds": held})
        else:
            below = ("", held_sheet(held)) if held else ()
            show(Group(cluster_screen(overview), *below))
        check_complete(overview)


def _held_changes(control: ControlClient) -> tuple[HeldChange, ...]:
    """Faults, reply rules and full journals; none if the control address has just ended."""
    rules: dict[str, tuple[ReplyRuleState, ...]] = {}
    with suppress(AdminError):
        faults, nodes = control.faults(), control.nodes()
        left_out = {node.name: node.facts_left_out for node in nodes if node.facts_left_out}
        for node in nodes:
            if node.state == "running":
                with suppress(AdminError):  # it allows no rules, or has just ended
                    rules[node.name] = control.reply_rules(node.name)
        return held_changes(faults, rules, left_out)
    return ()

"""``advance``: messages that wait for their time come now, in a running ``up``."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.cli.errors import BadUse, plain_errors
from emulator.cli.nodes import ControlAt
from emulator.cli.shared import NAMESRV, AsJson, Namesrv, show_json
from emulator.cluster.control.caller import find_control
from emulator.cluster.durations import milliseconds

Time = Annotated[str, typer.Argument(metavar="TIME", help='How far, as "10m", "2h" or "30s".')]


def advance(
    time: Time, control: ControlAt = "", namesrv: Namesrv = NAMESRV, as_json: AsJson = False
) -> None:
    """Deliver now what falls due in the next TIME: delays, retries."""
    with plain_errors():
        try:
            ms = milliseconds(time)
        except ValueError as error:
            raise BadUse(str(error)) from error
        done = find_control(control, namesrv).advance(ms)
    if as_json:
        show_json({"ms": ms, "due_count": done})
    else:
        typer.echo(f"advanced by {time}: {done} message{'s' * (done != 1)} came")

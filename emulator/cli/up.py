"""``up``: the mini-cluster, until Ctrl-C or SIGTERM.

In a pipe it prints one JSON line when everything is ready; in a terminal it shows what
is going on.  It starts the nodes before it imports what draws.
"""

from __future__ import annotations

import json
import signal
import time
from typing import Annotated

import typer

from emulator.cluster.processes import ProcessCluster
from emulator.cluster.readiness import NodeDied, NotReady
from emulator.cluster.spec import ClusterSpec

LOOK_S = 0.2


def up(
    brokers: Annotated[int, typer.Option(help="How many.")] = 2,
    release: Annotated[str, typer.Option(help="Whose behaviour: 4.9.7, 5.3.3 …")] = "4.9.7",
    store: Annotated[str, typer.Option(help="Keep messages in this folder.")] = "",
    port: Annotated[int, typer.Option(help="Of the NameServer; 0: any free ports.")] = 9876,
) -> None:
    """Start a NameServer and brokers, and keep them until Ctrl-C."""
    spec = ClusterSpec(brokers=brokers, release=release, store=store, port=port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    cluster = ProcessCluster(spec)
    try:
        cluster.start()
        cluster.wait_ready()
        line = {
            "namesrv": cluster.namesrv,
            "brokers": cluster.brokers,
            "pids": list(cluster.pids.values()),
            "ready_s": round(cluster.ready_s, 3),
        }
        typer.echo(json.dumps(line))
        while True:
            time.sleep(LOOK_S)
            cluster.check_alive()
    except (NodeDied, NotReady) as error:
        typer.echo(f"rmqemu: {error}", err=True)
        raise typer.Exit(1) from None
    except _Stopped:
        return
    finally:
        cluster.stop()


class _Stopped(Exception):
    """Somebody asked us to stop."""


def _stop(_number: int, _frame: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise _Stopped

"""``up``: the mini-cluster, until Ctrl-C or SIGTERM.

In a pipe it prints one JSON line when everything is ready; in a terminal it shows what
is going on.  The nodes are started before anything that draws is imported.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Annotated, Self

import typer

from emulator.cli.errors import BadUse, plain_errors
from emulator.cli.log_options import Format, log_settings
from emulator.cli.start_progress import StartProgress
from emulator.cli.up_options import (
    BROKERS,
    EMBEDDED,
    JOURNAL,
    LOG,
    LOG_FORMAT,
    PORT,
    RELEASE,
    SETS,
    STORE,
)
from emulator.cluster.node_process import OnProgress
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.real_world import RealWorld
from emulator.cluster.settings import Settings
from emulator.cluster.spec import ClusterSpec
from emulator.config import BrokerConfig
from emulator.logs import LogSettings

POLL_S = 0.2


def up(
    brokers: Annotated[
        int, typer.Option(*BROKERS.flags, help="How many brokers.")
    ] = BROKERS.default,
    release: Annotated[
        str, typer.Option(*RELEASE.flags, help="Whose behaviour: 4.9.7, 5.3.3 …")
    ] = RELEASE.default,
    store: Annotated[
        str,
        typer.Option(
            *STORE.flags,
            metavar="DIR",
            help="Keep messages in this folder; without it they are gone at the end.",
        ),
    ] = STORE.default,
    port: Annotated[
        int, typer.Option(*PORT.flags, help="The NameServer's port; 0: any free ports.")
    ] = PORT.default,
    embedded: Annotated[
        bool, typer.Option(*EMBEDDED.flags, help="All in one process.")
    ] = EMBEDDED.default,
    sets: Annotated[
        list[str] | None,
        typer.Option(*SETS.flags, metavar="KEY=VALUE", help="One setting, for every broker."),
    ] = SETS.default,
    journal: Annotated[
        str,
        typer.Option(
            *JOURNAL.flags,
            metavar="DIR",
            help="Write facts there, a file a node: the last four of 256 MiB.",
        ),
    ] = JOURNAL.default,
    log: Annotated[
        bool,
        typer.Option(*LOG.flags, help="Say what happens, on stderr, instead of the live view."),
    ] = LOG.default,
    log_format: Format = LOG_FORMAT.default,
) -> None:
    """Start a NameServer and brokers, and keep them until Ctrl-C."""
    with plain_errors():
        spec = _spec(brokers, release, store, port, sets or [])
        shown = log_settings(log_format, everything=log)
        with (
            StopSignals() as signals,
            StartProgress(are_bars=sys.stderr.isatty()) as progress,
            _started(spec, journal, shown, progress.show, embedded=embedded) as cluster,
        ):
            progress.close()
            _stay(cluster, signals, release, is_live=sys.stdout.isatty() and not log)


def _spec(brokers: int, release: str, store: str, port: int, sets: list[str]) -> ClusterSpec:
    settings = Settings(BrokerConfig)
    settings.add_assignments(sets)
    given = settings.nested()
    if own := sorted({"name", "listen_address", "namesrv", "store"} & given.keys()):
        raise BadUse(f"--set {', '.join(own)}: every broker needs its own; `up` gives it")
    if settings.ignored:
        names = ", ".join(settings.ignored)
        typer.echo(f"rmqemu: of no effect here, ignored: {names}", err=True)
    try:
        spec = ClusterSpec(
            brokers=brokers, release=release, store=store, port=port, broker_settings=given
        )
        spec.check()
    except ValueError as error:
        raise BadUse(str(error)) from error
    return spec


def _started(
    spec: ClusterSpec, journal: str, log: LogSettings, on_progress: OnProgress, *, embedded: bool
) -> RealWorld:
    if not embedded:
        return ProcessCluster(spec, journal=journal, log=log, on_progress=on_progress)
    from emulator.cluster.embedded import EmbeddedCluster  # noqa: PLC0415  # loads every role

    return EmbeddedCluster(spec, journal=journal, log=log)


def _stay(cluster: RealWorld, signals: StopSignals, release: str, *, is_live: bool) -> None:
    """Until a signal, or until a node dies."""
    if is_live:
        import trio  # noqa: PLC0415  # only where somebody looks

        from emulator.cli.live import watch  # noqa: PLC0415  # the same

        signals.check()
        trio.run(watch, cluster, f"RocketMQ {release} on {cluster.namesrv}")
        signals.is_to_stop = True  # a second Ctrl-C does not disturb the orderly end
        return
    typer.echo(json.dumps(ready_line(cluster)))
    while True:
        time.sleep(POLL_S)
        signals.check()
        cluster.check_alive()
        for line in cluster.log_lines():
            typer.echo(line, err=True)


def ready_line(cluster: RealWorld) -> dict[str, object]:
    """What a program that started ``up`` reads: where everything listens."""
    return {
        "namesrv": cluster.namesrv,
        "brokers": cluster.brokers,
        "pids": list(dict.fromkeys(cluster.pids.values())),
        "ready_s": round(cluster.ready_s, 3),
    }


class StopRequested(BaseException):
    """A signal asked this process to stop.

    It is raised wherever the program happens to be, and that may be a place that swallows
    exceptions: so the request is also remembered.  A second signal raises nothing.
    """


class StopSignals:
    """``with StopSignals() as signals:`` SIGINT and SIGTERM raise ``StopRequested``, once."""

    def __init__(self) -> None:
        self.is_to_stop = False

    def __enter__(self) -> Self:
        numbers = (signal.SIGTERM, signal.SIGINT)
        self._before = {number: signal.signal(number, self._on_signal) for number in numbers}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        return kind is StopRequested

    def check(self) -> None:
        """Raises ``StopRequested`` if a signal came, whoever swallowed it."""
        if self.is_to_stop:
            raise StopRequested

    def _on_signal(self, _number: int, _frame: object) -> None:
        if not self.is_to_stop:
            self.is_to_stop = True
            raise StopRequested

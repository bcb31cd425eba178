"""``up``: runs a cluster until Ctrl-C or SIGTERM.

In a pipe it prints one JSON line when all nodes are ready; in a terminal it shows the live view.
The nodes are started before the modules that draw are imported.  The progress of nodes that read
a large store goes to standard error: a bar per node in a terminal, else a line for every tenth.
Without a large store nothing is shown, and no module is imported for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import typer
from msgspec.structs import replace

from rocketmq_emulator.cli.options.errors import (
    BadUse,
    errors_as_exit_codes,
    fail,
    print_note,
)
from rocketmq_emulator.cli.options.server_arguments import (
    ActingMaster,
    Advertise,
    Brokers,
    Controllers,
    ControlPort,
    Embedded,
    ExitOnDeath,
    ExitWithParent,
    Format,
    JournalFolder,
    Listen,
    LogFacts,
    Port,
    ReleaseName,
    Sets,
    Slaves,
    Store,
    SyncMaster,
    WithLinks,
    log_settings,
)
from rocketmq_emulator.cli.options.up_options import (
    BROKERS_DEFAULT,
    PORT_DEFAULT,
    RELEASE_DEFAULT,
)
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.disk.temporary_store import temporary_store
from rocketmq_emulator.facts.logs import LogFormat, LogSettings
from rocketmq_emulator.processes.node_process import NodeDied, OnProgress
from rocketmq_emulator.processes.role_settings import Settings
from rocketmq_emulator.processes.starting import process_age_s
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.settings.setting_rules import SettingRefused

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
    from rocketmq_emulator.processes.starting import NodeProgress


STARTED_BY = os.getppid()  # read as early as possible: the parent may end while ``up`` loads
POLL_S = 0.2
LINES_KEPT_MAX = 100
DEFAULT_CONTROL = f"127.0.0.1:{PORT_DEFAULT - 1}"  # where commands look by default
PORT_MAX = 65_535
IN_MEMORY = "none"  # as --store
ALL_ADDRESSES = ("0.0.0.0", "[::]")
FOR_ALL_NODES = {"reply_rules_allowed"}  # a reset needs it of the NameServer, too


def up(
    brokers: Brokers = BROKERS_DEFAULT,
    slaves: Slaves = 0,
    controllers: Controllers = 0,
    sync_master: SyncMaster = False,
    acting_master: ActingMaster = False,
    release: ReleaseName = RELEASE_DEFAULT,
    store: Store = "",
    port: Port = PORT_DEFAULT,
    listen: Listen = "127.0.0.1",
    advertise: Advertise = "",
    embedded: Embedded = False,
    with_links: WithLinks = False,
    sets: Sets = None,
    control: ControlPort = "",
    journal: JournalFolder = "",
    exit_on_death: ExitOnDeath = False,
    exit_with_parent: ExitWithParent = False,
    log: LogFacts = False,
    log_format: Format = LogFormat.CONSOLE,
) -> None:
    """Start a NameServer and brokers, and keep them until Ctrl-C."""
    parent = STARTED_BY if exit_with_parent else None
    with errors_as_exit_codes():
        if journal and Path(journal).exists() and not Path(journal).is_dir():
            raise BadUse(f"--journal {journal} is not a folder")
        where = ListenAddress(port, listen, advertise)
        kept = StoreChoice.of(store, embedded=embedded)
        role = ["brokerRole=SYNC_MASTER"] if sync_master else []
        if acting_master and not slaves:
            raise BadUse("--acting-master needs slaves that can act: --slaves 1")
        nodes = Nodes(brokers, slaves, controllers, acting_master)
        spec = _spec(nodes, release, kept, where, [*role, *(sets or [])])
        wanted = ControlPortOption.parse(control, port)
        shown = log_settings(log_format, everything=log)
        started = partial(_started, journal=journal, log=shown, with_links=with_links)
        with (
            StopSignals() as signals,
            kept.opened(spec) as spec,
            StartProgress(are_bars=sys.stderr.isatty()) as progress,
            started(spec, progress.show, embedded=embedded) as cluster,
        ):
            progress.close()
            wanted.open(cluster)
            cluster.ready_s = process_age_s()  # since the start of this process
            messages = ClusterMessages(cluster, exits_on_death=exit_on_death, parent=parent)
            _run_until_signal(
                cluster, signals, messages, is_live=_can_draw(os.environ) and not log
            )
        _report_what_is_kept(kept.folder, journal)
        _check_journals(journal, cluster.facts_left_out)


class StoreChoice(NamedTuple):
    """Where messages are: in a *folder*, in a temporary one, or in memory."""

    folder: str = ""
    is_temporary: bool = False

    @classmethod
    def of(cls, option: str, *, embedded: bool) -> Self:
        """What ``--store`` says.  Embedded brokers keep their memory when they are killed."""
        if option in ("", IN_MEMORY):
            return cls(is_temporary=not option and not embedded)
        return cls(option)

    @contextmanager
    def opened(self, spec: ClusterSpec) -> Iterator[ClusterSpec]:
        """The *spec* with its store, which is removed after the block if it is temporary."""
        if not self.is_temporary:
            yield spec
            return
        with temporary_store() as folder:
            yield replace(spec, store=str(folder))


def _report_what_is_kept(store: str, journal: str) -> None:
    """One line for each folder that has data of this run; its user may look for it."""
    if store:
        print_note(f"rmqemu: kept in {store}: messages, topics and offsets")
    if journal:
        print_note(f"rmqemu: kept in {journal}: facts; see rmqemu report, judge, explain")
    if not store and not journal and sys.stderr.isatty():
        print_note("rmqemu: nothing is kept; see --store DIR and --journal DIR")


def _check_journals(journal: str, left_out: Mapping[str, int]) -> None:
    """Fail if facts are missing in the journals: no verdict about this run can be relied on."""
    if left_out:
        counts = ", ".join(f"{count:,} of {name}" for name, count in sorted(left_out.items()))
        raise fail(f"the disk of {journal} was full: facts are missing there: {counts}")


class ListenAddress(NamedTuple):
    """The NameServer's port, the host to listen on, and the host that clients use."""

    port: int
    host: str
    advertised_host: str


class Nodes(NamedTuple):
    """How many brokers, slaves of each, and controllers, and whether a slave may act."""

    brokers: int
    slaves: int
    controllers: int
    acting_master: bool


def _spec(
    nodes: Nodes, release: str, store: StoreChoice, where: ListenAddress, sets: list[str]
) -> ClusterSpec:
    if where.host in ALL_ADDRESSES and not where.advertised_host:
        raise BadUse(f"--listen {where.host} needs --advertise HOST: the address that clients use")
    settings = Settings(BrokerConfig)
    settings.add_assignments(sets)
    given = settings.nested() | ({"store_is_temporary": True} if store.is_temporary else {})
    of_name_servers = {name: given[name] for name in FOR_ALL_NODES & given.keys()}
    if given.get("slave_acting_master"):
        of_name_servers["support_acting_master"] = True  # routes show the slave as the master
    if own := sorted({"name", "broker_id", "listen_address", "namesrv", "store"} & given.keys()):
        raise BadUse(f"--set {', '.join(own)}: every broker needs its own; `up` sets it")
    if settings.ignored:
        names = ", ".join(settings.ignored)
        typer.echo(f"rmqemu: of no effect here, ignored: {names}", err=True)
    try:
        spec = ClusterSpec(
            **nodes._asdict(),
            release=release,
            store=store.folder,
            **where._asdict(),
            broker_settings=given,
            name_server_settings=of_name_servers,
            controller_settings={name: given[name] for name in FOR_ALL_NODES & given.keys()},
        )
        spec.check()
    except SettingRefused as error:
        raise settings.refused(error) from error
    except ValueError as error:
        raise BadUse(str(error)) from error
    return spec


class ControlPortOption(NamedTuple):
    """The port and the host of the control address; port None means no control address."""

    port: int | None
    or_any: bool = False
    host: str = "127.0.0.1"

    @classmethod
    def parse(cls, text: str, namesrv_port: int) -> ControlPortOption:
        """The option in *text*; by default the port below the NameServer's: it is predictable."""
        if not text:
            return cls(max(0, namesrv_port - 1), or_any=True)
        if text == "none":
            return cls(None)
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or int(port) > PORT_MAX:
            raise BadUse(f"--control {text}: a port from 0 (any free) to {PORT_MAX}, or none")
        with suppress(ValueError):
            return cls(int(port), host=str(IPv4Address(host or "127.0.0.1")))
        raise BadUse(f"--control {text}: the host is an IPv4 address, as 0.0.0.0 for all")

    def open(self, cluster: RealWorld) -> None:
        """Open the control address.  Raises ``AddressInUse`` if a given port is in use."""
        if self.port is not None:
            cluster.open_control(self.port, host=self.host, or_any=self.or_any)


def _started(
    spec: ClusterSpec,
    on_progress: OnProgress,
    *,
    embedded: bool,
    journal: str,
    log: LogSettings,
    with_links: bool,
) -> RealWorld:
    kind: type[ProcessCluster | EmbeddedCluster] = ProcessCluster
    if embedded:
        from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster  # noqa: PLC0415  # loads every role

        kind = EmbeddedCluster
    return kind(spec, journal=journal, log=log, on_progress=on_progress, with_links=with_links)


class ClusterMessages:
    """Log lines and unexpected deaths of the cluster's nodes, as lines for standard error.

    With *parent*, a process id, the command is stopped once that is not its parent any more.
    """

    def __init__(
        self, cluster: RealWorld, *, exits_on_death: bool, parent: int | None = None
    ) -> None:
        self._cluster = cluster
        self._exits_on_death = exits_on_death
        self._parent = parent
        self.latest: deque[str] = deque(maxlen=LINES_KEPT_MAX)

    def lines(self) -> list[str]:
        """The new lines.  Raises ``NodeDied`` if a death is to end the command."""
        if self._parent not in (None, os.getppid()):
            self._parent = None
            signal.raise_signal(signal.SIGTERM)  # as if the parent had sent it
        logged = self._cluster.log_lines()
        self.latest += logged
        if self._exits_on_death:
            self._cluster.check_alive()
        deaths = list(map(self._text_of_death, self._cluster.deaths()))
        self.latest += deaths
        return [*logged, *deaths]

    def _text_of_death(self, death: NodeDied) -> str:
        text = f"rmqemu: {death.first_line}; the others go on"
        if not self._cluster.control:
            return text
        where = self._cluster.control.removeprefix("http://")
        option = "" if where == DEFAULT_CONTROL else f" --control {where}"
        return f"{text}; start it again with: rmqemu start {death.name}{option}"


def _can_draw(environment: Mapping[str, str]) -> bool:
    """True for a terminal that can move its cursor; others, and pipes, get plain lines."""
    return sys.stdout.isatty() and environment.get("TERM", "dumb") not in ("dumb", "unknown")


def _run_until_signal(
    cluster: RealWorld, signals: StopSignals, messages: ClusterMessages, *, is_live: bool
) -> None:
    """Run until a signal, even if no node is left: dead nodes can be started again."""
    if is_live:
        import trio  # noqa: PLC0415  # only for the live view

        from rocketmq_emulator.cli.screens.live import watch  # noqa: PLC0415  # the same

        signals.check()
        cluster.announce_control()
        try:
            trio.run(watch, cluster, messages.lines)
        finally:  # the screen is closed, and with it the lines that it showed
            for line in messages.latest:
                typer.echo(line, err=True)
        signals.is_to_stop = True  # a second Ctrl-C does not interrupt the shutdown
        return
    typer.echo(json.dumps(ready_line(cluster)))
    cluster.announce_control()
    while True:
        time.sleep(POLL_S)
        signals.check()
        for line in messages.lines():
            typer.echo(line, err=True)


def ready_line(cluster: RealWorld) -> dict[str, object]:
    """The JSON line for a program that started ``up``: addresses and processes."""
    return {
        "namesrv": cluster.namesrv,
        "brokers": cluster.brokers,
        "controllers": {
            node.name: node.address for node in cluster.nodes if node.role == "controller"
        },
        "nodes": {
            node.name: {"role": node.role, "address": node.address, "pid": node.pid}
            for node in cluster.nodes
        },
        "control": cluster.control,
        "pids": list(dict.fromkeys(cluster.pids.values())),
        "ready_s": round(cluster.ready_s, 3),
    }


class StopRequested(BaseException):
    """A signal asked this process to stop.

    The signal handler raises it at any point of the program, also where exceptions are
    swallowed: so ``StopSignals`` remembers the request.  A second signal raises nothing.
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
        """Raise ``StopRequested`` if a signal came, even if it was raised and swallowed."""
        if self.is_to_stop:
            raise StopRequested

    def _on_signal(self, _number: int, _frame: object) -> None:
        if not self.is_to_stop:
            self.is_to_stop = True
            raise StopRequested


# Progress of stores that are loaded ---------------------------------------------------


Key = tuple[str, str]  # the node, and the kind of data that it reads
STEP_PERCENT = 10


class StartProgress:
    """``with StartProgress(…) as progress:`` shows the progress of nodes until ``close``."""

    def __init__(self, *, are_bars: bool) -> None:
        self._are_bars = are_bars
        self._is_closed = False
        self._shown_percent: dict[Key, int] = {}
        self._bars: Progress | None = None
        self._tasks: dict[Key, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, name: str, progress: NodeProgress) -> None:
        """Show the progress of the node *name*; does nothing after ``close``."""
        if self._is_closed:
            return
        if self._are_bars:
            self._show_bar((name, progress.what), progress)
        else:
            self._show_line((name, progress.what), progress)

    def close(self) -> None:
        """Remove the bars: the nodes are ready, or have failed."""
        self._is_closed = True
        if self._bars is not None:
            self._bars.stop()

    def _show_line(self, key: Key, progress: NodeProgress) -> None:
        percent = progress.percent // STEP_PERCENT * STEP_PERCENT
        if percent > self._shown_percent.get(key, 0):
            self._shown_percent[key] = percent
            typer.echo(f"{_title(*key)}: {percent} %", err=True)

    def _show_bar(self, key: Key, progress: NodeProgress) -> None:
        bars = self._bars = self._bars or _new_bars()
        if key not in self._tasks:
            self._tasks[key] = bars.add_task(_title(*key))
        bars.update(self._tasks[key], completed=progress.done, total=progress.total)


def _title(name: str, what: str) -> str:
    return f"{name} reads its {what}"


def _new_bars() -> Progress:
    from rich.console import Console  # noqa: PLC0415  # only for a large store
    from rich.progress import Progress  # noqa: PLC0415  # the same

    bars = Progress(console=Console(stderr=True), transient=True)
    bars.start()
    return bars

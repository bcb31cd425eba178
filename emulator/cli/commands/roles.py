"""``nameserver``, ``controller`` and ``broker``: run one role in this process.

This module collects the settings; then exec replaces this program by the node's program, so
that no module of the command line stays in memory.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from rocketmq_emulator.cli.options.completion import complete_release
from rocketmq_emulator.cli.options.errors import errors_as_exit_codes
from rocketmq_emulator.cli.options.server_arguments import (
    RELEASE_METAVAR,
    Format,
    log_settings,
)
from rocketmq_emulator.facts.logs import LogFormat, LogSettings
from rocketmq_emulator.processes.namesrv_settings import NameServerProcessSettings
from rocketmq_emulator.processes.role_settings import BadSetting, Settings
from rocketmq_emulator.processes.roles import RoleConfig, role_of
from rocketmq_emulator.processes.spawning import node_command, node_environment
from rocketmq_emulator.settings.config import BrokerConfig, ControllerConfig

ALL_ADDRESSES = ("0.0.0.0", "[::]", "")
UNROUTED_ADDRESS = ("192.0.2.1", 9)  # an address for documentation; no packet is sent

Conf = Annotated[
    str, typer.Option("-c", metavar="FILE", help="A RocketMQ .conf file (key=value lines).")
]
Toml = Annotated[
    str, typer.Option("--config", metavar="FILE", help="A TOML file with this project's names.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting, by RocketMQ's name or this project's; repeatable.",
    ),
]
Listen = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The address to listen on.")]
Journal = Annotated[
    str,
    typer.Option(
        "--journal",
        metavar="DIR|FILE",
        help="Write facts to this folder, or to a file *.jsonl: at most four files of 256 MiB.",
    ),
]
Log = Annotated[bool, typer.Option("--log", "-v", help="Log every fact on stderr.")]
Release = Annotated[
    str | None,
    typer.Option(
        metavar=RELEASE_METAVAR,
        autocompletion=complete_release,
        help="Behave as this RocketMQ release.",
    ),
]
Store = Annotated[
    str | None, typer.Option(metavar="DIR", help="Keep messages and tables in this folder.")
]


def nameserver(
    listen: Listen = None,
    release: Release = None,
    store: Store = None,
    conf: Conf = "",
    config: Toml = "",
    sets: Sets = None,
    journal: Journal = "",
    log: Log = False,
    log_format: Format = LogFormat.CONSOLE,
) -> None:
    """Run one NameServer; with enableControllerInNamesrv=true a controller in its process."""
    with errors_as_exit_codes():
        settings = NameServerProcessSettings()
        _read_settings(settings, conf, config, sets)
        settings.add_flags(listen_address=listen, release=release, store=store)
        made, beside = settings.config(), settings.controller_config()
        _exec_node(settings, made, journal, log_settings(log_format, everything=log), beside)


def controller(
    listen: Listen = None,
    release: Release = None,
    store: Store = None,
    conf: Conf = "",
    config: Toml = "",
    sets: Sets = None,
    journal: Journal = "",
    log: Log = False,
    log_format: Format = LogFormat.CONSOLE,
) -> None:
    """Run one controller, which elects the master of each broker name."""
    with errors_as_exit_codes():
        settings = _read_settings(Settings(ControllerConfig), conf, config, sets)
        settings.add_flags(listen_address=listen, release=release, store=store)
        _exec_node(settings, settings.config(), journal, log_settings(log_format, everything=log))


def broker(
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The broker's name, unique in the cluster."),
    ] = None,
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv", "-n", metavar="HOST:PORT;…", help="The NameServers to register at."
        ),
    ] = None,
    listen: Listen = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAMESRV=]IP:PORT",
            help="The address for clients, if it differs; repeatable, NAMESRV=: for those of that "
            "NameServer.",
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="The cluster's name.")
    ] = None,
    release: Release = None,
    store: Store = None,
    conf: Conf = "",
    config: Toml = "",
    sets: Sets = None,
    journal: Journal = "",
    log: Log = False,
    log_format: Format = LogFormat.CONSOLE,
) -> None:
    """Run one broker."""
    with errors_as_exit_codes():
        settings = _read_settings(Settings(BrokerConfig), conf, config, sets)
        reached_at, reached_from = _advertised(advertise or [])
        settings.add_flags(
            name=name,
            namesrv=namesrv,
            listen_address=listen,
            advertised_address=reached_at,
            advertised_to=reached_from,
            cluster=cluster,
            release=release,
            store=store,
        )
        _exec_node(
            settings, _reachable(settings), journal, log_settings(log_format, everything=log)
        )


def _advertised(given: list[str]) -> tuple[str | None, dict[str, str] | None]:
    """The broker's address for all clients, and those for clients of single NameServers."""
    pairs = [address.rpartition("=") for address in given]
    for_all = [address for name_server, _, address in pairs if not name_server]
    if len(for_all) > 1:
        raise BadSetting(f"--advertise takes one address without NAMESRV=, not {len(for_all)}")
    apart = {name_server: address for name_server, _, address in pairs if name_server}
    return (for_all[0] if for_all else None), apart or None


def _read_settings(settings: Settings, conf: str, config: str, sets: list[str] | None) -> Settings:
    if conf:
        settings.add_properties_file(conf)
    if config:
        settings.add_toml_file(config)
    settings.add_environment(os.environ)
    settings.add_assignments(sets or ())
    return settings


def _reachable(settings: Settings) -> RoleConfig:
    """A broker that listens everywhere must advertise one address of this machine."""
    config = settings.config()
    assert isinstance(config, BrokerConfig)
    host, _, port = config.listen_address.rpartition(":")
    if config.advertised_address or host not in ALL_ADDRESSES:
        return config
    if port == "0":
        raise BadSetting(f"--listen {config.listen_address} needs a port, or --advertise")
    return msgspec.structs.replace(config, advertised_address=f"{_own_address()}:{port}")


def _own_address() -> str:
    """The machine's address for outgoing packets; loopback if it has no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(UNROUTED_ADDRESS)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def journal_file(journal: str, name: str) -> str:
    """The file of the node *name*: *journal* itself, or a file in the folder *journal*.

    A folder is meant unless *journal* is a file, or is named like a journal.
    """
    path = Path(journal)
    if not journal or path.is_file() or path.suffix in (".jsonl", ".json") or _is_device(path):
        return journal
    return str(path / f"{name}.jsonl")


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_dir()


def _exec_node(
    settings: Settings,
    config: RoleConfig,
    journal: str,
    log: LogSettings,
    beside: ControllerConfig | None = None,
) -> None:
    if settings.ignored:
        names = ", ".join(sorted(settings.ignored))
        typer.echo(f"rmqemu: of no effect here, ignored: {names}", err=True)
    role = role_of(config)
    if journal := journal_file(journal, getattr(config, "name", role)):
        Path(journal).parent.mkdir(parents=True, exist_ok=True)
    config_text, log_text = (msgspec.json.encode(value).decode() for value in (config, log))
    beside_text = "" if beside is None else msgspec.json.encode(beside).decode()
    command = node_command(role, config_text, journal, log_text, beside_text)
    os.execve(command[0], command, node_environment())  # noqa: S606  # our own program

"""Options of the commands that start servers: ``up``, ``broker``, ``nameserver``.

``log_settings`` gives the log settings of all of them.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, TypeAlias

import typer

from rocketmq_emulator.cli.options.completion import complete_release
from rocketmq_emulator.facts.logs import LogFormat, LogSettings

RELEASE_METAVAR = "4.9.7|5.3.3|…"

Brokers: TypeAlias = Annotated[
    int, typer.Option("--brokers", metavar="N", help="The number of brokers.")
]
Slaves: TypeAlias = Annotated[
    int, typer.Option("--slaves", metavar="N", help="The number of slaves of each broker.")
]
Controllers: TypeAlias = Annotated[
    int,
    typer.Option(
        "--controllers",
        metavar="0|1|3",
        help="The number of controllers, which elect the master of each broker name.",
    ),
]
SyncMaster: TypeAlias = Annotated[
    bool,
    typer.Option("--sync-master", help="Brokers answer sends when a slave has the message."),
]
ActingMaster: TypeAlias = Annotated[
    bool,
    typer.Option("--acting-master", help="A slave acts as its master while that is away (5.x)."),
]
ReleaseName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--release",
        metavar=RELEASE_METAVAR,
        autocompletion=complete_release,
        help="Behave as this RocketMQ release.",
    ),
]
Store: TypeAlias = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Keep messages in this folder. Without it they are in a temporary one until the end; "
        "with none in memory, and a broker that is killed loses its own.",
    ),
]
Port: TypeAlias = Annotated[
    int, typer.Option("--port", metavar="PORT", help="The NameServer's port; 0 = any free port.")
]
Embedded: TypeAlias = Annotated[
    bool, typer.Option("--embedded", help="Run all nodes in one process.")
]
WithLinks: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--with-links",
        help="Put a proxy before each node, so that its links can be slow, stalled or cut.",
    ),
]
Listen: TypeAlias = Annotated[
    str,
    typer.Option("--listen", metavar="HOST", help="The address to listen on; 0.0.0.0 = all."),
]
Advertise: TypeAlias = Annotated[
    str,
    typer.Option(
        "--advertise",
        metavar="HOST",
        help="The address that clients use, if it differs: 127.0.0.1 for a container.",
    ),
]
ControlPort: TypeAlias = Annotated[
    str,
    typer.Option(
        "--control",
        metavar="[HOST:]PORT|none",
        help="The control address; by default the NameServer's port minus one, on loopback.",
    ),
]
Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting for every broker; repeatable."),
]
JournalFolder: TypeAlias = Annotated[
    str,
    typer.Option(
        "--journal",
        metavar="DIR",
        help="Write facts to this folder: per node at most four files of 256 MiB.",
    ),
]
ExitOnDeath: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exit-on-death",
        help="End with an error when a node dies; by default the others go on.",
    ),
]
ExitWithParent: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exit-with-parent",
        help="End when the process that started it ends, killed or not: for test suites.",
    ),
]
LogFacts: TypeAlias = Annotated[
    bool,
    typer.Option("--log", "-v", help="Log every fact on stderr instead of showing the live view."),
]


# Log lines on standard error ----------------------------------------------------------


Format = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        metavar="console|json",
        help="console is for people; json is one object per line.",
    ),
]


def log_settings(format_: LogFormat, *, everything: bool) -> LogSettings:
    """The settings to log warnings and errors, or with *everything* all facts but routine ones.

    A node cannot see whether its log goes to a terminal, so the colours are decided here;
    the live view of ``up`` has its own colours.
    """
    is_terminal = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return LogSettings(
        least="info" if everything else "warning",
        format=format_,
        colours=everything and is_terminal,
    )

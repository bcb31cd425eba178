"""The options of ``up`` for who declares the command: flags off the table, and their help.

Apart from the table, because that is read before anything is loaded, and this needs typer.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from emulator.cli.up_options import (
    ADVERTISE,
    BROKERS,
    CONTROL,
    EMBEDDED,
    EXIT_ON_DEATH,
    JOURNAL,
    LISTEN,
    LOG,
    PORT,
    RELEASE,
    SETS,
    STORE,
    WITH_LINKS,
)

Brokers: TypeAlias = Annotated[int, typer.Option(*BROKERS.flags, help="The number of brokers.")]
ReleaseName: TypeAlias = Annotated[
    str, typer.Option(*RELEASE.flags, help="Behave as this RocketMQ release, such as 5.3.3.")
]
Store: TypeAlias = Annotated[
    str,
    typer.Option(
        *STORE.flags,
        metavar="DIR",
        help="Keep messages in this folder; without it they are lost at the end.",
    ),
]
Port: TypeAlias = Annotated[
    int, typer.Option(*PORT.flags, help="The NameServer's port; 0 = any free port.")
]
Embedded: TypeAlias = Annotated[
    bool, typer.Option(*EMBEDDED.flags, help="Run all nodes in one process.")
]
WithLinks: TypeAlias = Annotated[
    bool,
    typer.Option(
        *WITH_LINKS.flags,
        help="Put a proxy before each node, so that its links can be slow, stalled or cut.",
    ),
]
Listen: TypeAlias = Annotated[
    str,
    typer.Option(*LISTEN.flags, metavar="HOST", help="The address to listen on; 0.0.0.0 = all."),
]
Advertise: TypeAlias = Annotated[
    str,
    typer.Option(
        *ADVERTISE.flags,
        metavar="HOST",
        help="The address that clients use, if another, as 127.0.0.1 for a container.",
    ),
]
ControlPort: TypeAlias = Annotated[
    str,
    typer.Option(
        *CONTROL.flags,
        metavar="PORT|none",
        help="The port of the control address; by default the NameServer's minus one.",
    ),
]
Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        *SETS.flags, metavar="KEY=VALUE", help="A setting for every broker; may be repeated."
    ),
]
JournalFolder: TypeAlias = Annotated[
    str,
    typer.Option(
        *JOURNAL.flags,
        metavar="DIR",
        help="Write facts to this folder: per node at most four files of 256 MiB.",
    ),
]
ExitOnDeath: TypeAlias = Annotated[
    bool,
    typer.Option(
        *EXIT_ON_DEATH.flags,
        help="End with an error when a node dies; by default the others go on.",
    ),
]
LogFacts: TypeAlias = Annotated[
    bool,
    typer.Option(*LOG.flags, help="Log every fact on stderr instead of showing the live view."),
]

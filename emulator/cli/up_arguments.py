"""The options of ``up`` for who declares the command: flags off the table, and their help.

Apart from the table, because that is read before anything is loaded, and this needs typer.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from emulator.cli.up_options import (
    BROKERS,
    CONTROL,
    EMBEDDED,
    EXIT_ON_DEATH,
    JOURNAL,
    LOG,
    PORT,
    RELEASE,
    SETS,
    STORE,
)

Brokers: TypeAlias = Annotated[int, typer.Option(*BROKERS.flags, help="How many brokers.")]
ReleaseName: TypeAlias = Annotated[
    str, typer.Option(*RELEASE.flags, help="Whose behaviour: 4.9.7, 5.3.3 …")
]
Store: TypeAlias = Annotated[
    str,
    typer.Option(
        *STORE.flags,
        metavar="DIR",
        help="Keep messages in this folder; without it they are gone at the end.",
    ),
]
Port: TypeAlias = Annotated[
    int, typer.Option(*PORT.flags, help="The NameServer's port; 0: any free ports.")
]
Embedded: TypeAlias = Annotated[bool, typer.Option(*EMBEDDED.flags, help="All in one process.")]
ControlPort: TypeAlias = Annotated[
    str,
    typer.Option(
        *CONTROL.flags,
        metavar="PORT|none",
        help="The port of the control address; without it the one below the NameServer's.",
    ),
]
Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(*SETS.flags, metavar="KEY=VALUE", help="One setting, for every broker."),
]
JournalFolder: TypeAlias = Annotated[
    str,
    typer.Option(
        *JOURNAL.flags,
        metavar="DIR",
        help="Write facts there, a file a node: the last four of 256 MiB.",
    ),
]
ExitOnDeath: TypeAlias = Annotated[
    bool,
    typer.Option(
        *EXIT_ON_DEATH.flags,
        help="End with an error when a node dies; without it the others go on.",
    ),
]
LogFacts: TypeAlias = Annotated[
    bool, typer.Option(*LOG.flags, help="Say what happens, on stderr, instead of the live view.")
]

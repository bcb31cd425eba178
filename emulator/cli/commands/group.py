"""``group list | describe | reset | delete``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rocketmq_emulator.admin.calls import (
    Admin,
    GroupLosses,
    NotFound,
    delete_group_everywhere,
    losses_of,
)
from rocketmq_emulator.admin.cluster_reader import ClusterReader
from rocketmq_emulator.admin.overview import GroupView
from rocketmq_emulator.cli.messages.positions import PLACES, TIMES, WORDS_SHOWN, position
from rocketmq_emulator.cli.options.completion import complete_group, complete_topic, one_of
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    Yes,
    call_cluster,
    check_complete,
    confirm,
    read_cluster,
    show,
    show_as,
    show_json,
    show_line,
)
from rocketmq_emulator.cli.screens.cluster_tables import a_table, groups_table, lag_text

app = typer.Typer(no_args_is_help=True, help="Show, move and delete consumer groups.")
Name = Annotated[
    str, typer.Argument(metavar="GROUP", autocompletion=complete_group, help="The group.")
]


@app.command("list")
def list_(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """List all groups except the brokers' internal ones."""
    with errors_as_exit_codes():
        overview = read_cluster(namesrv)
        more = overview.more_groups
        show_as(overview.groups, lambda groups: groups_table(groups, more), as_json=as_json)
        check_complete(overview)


@app.command()
def describe(name: Name, namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a group's members, and its offset and lag in each queue."""
    with errors_as_exit_codes():
        group = call_cluster(namesrv, lambda admin: _known_group(admin, name, namesrv))
        if as_json:
            show_json(group)
        else:
            _draw(group)


@app.command()
def reset(
    name: Name,
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC",
            autocompletion=complete_topic,
            help="The topic in which to move the group.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar=PLACES, autocompletion=one_of(WORDS_SHOWN), help=f"The new position.  {TIMES}."
        ),
    ] = "earliest",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """Move a group to another position in a topic.  Its consumers must be stopped."""
    with errors_as_exit_codes():
        place = position(to, "--to", int(time.time() * 1000))

        async def move(admin: Admin) -> list[dict[str, object]]:
            group = await _known_group(admin, name, namesrv)
            if group.members:
                raise BadUse(
                    f"{name} has {len(group.members)} consumers online that would move it back: "
                    "stop them first"
                )
            return await admin.move_group(name, topic, place.where, place.at_ms)

        moved = call_cluster(namesrv, move)
        if as_json:
            show_json(moved)
            return
        for queue in moved:
            show_line(f"{queue['broker']} {topic} queue {queue['queue']}: {queue['offset']}")


@app.command()
def delete(
    name: Name, yes: Yes = False, namesrv: Namesrv = NAMESRV, as_json: AsJson = False
) -> None:
    """Delete a group: its offsets, retries and dead letters.  Its consumers must be stopped."""

    async def look(admin: Admin) -> GroupLosses:
        group = await _known_group(admin, name, namesrv)
        if group.members:
            raise BadUse(
                f"{name} has {len(group.members)} consumers online that would create it again: "
                "stop them first"
            )
        return await losses_of(admin, group)

    async def remove(admin: Admin) -> None:
        await delete_group_everywhere(admin, name)

    losses = call_cluster(namesrv, look)
    confirm(f"Delete {name} with {losses.text}?", yes=yes)
    call_cluster(namesrv, remove)
    if as_json:
        show_json(losses)
    else:
        show_line(f"{name} is deleted with {losses.text}")


async def _known_group(admin: Admin, name: str, namesrv: str) -> GroupView:
    masters = await admin.masters()
    for address in masters.values():
        if any(group.group_name == name for group in await admin.groups(address)):
            return await ClusterReader(admin, namesrv).group(name, masters)
    raise NotFound(f"there is no group {name}: see `rmqemu group list`")


def _draw(group: GroupView) -> None:
    members = a_table("member", "address", "language")
    for member in group.members:
        members.add_row(member.client, member.address, member.language)
    queues = a_table(
        "topic", "broker", "queue", "committed", "end", "lag", numbers=("queue", *POSITIONS)
    )
    for queue in group.queues:
        position = (f"{queue.committed:,}", f"{queue.end:,}", lag_text(queue.lag))
        queues.add_row(queue.topic, queue.broker, f"{queue.queue_id}", *position)
    show_line(f"{group.name}: {group.model or 'no member is online'}, lag {group.lag:,}")
    if group.members:
        show(members)
    show(queues)


POSITIONS = ("committed", "end", "lag")

"""``topic create | list | describe | delete``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from rocketmq_emulator.admin.calls import (
    Admin,
    AdminError,
    ClusterUnreachable,
    NotFound,
    TopicMissing,
    delete_topic_everywhere,
)
from rocketmq_emulator.cli.options.completion import complete_topic, one_of
from rocketmq_emulator.cli.options.errors import (
    INCOMPLETE,
    BadUse,
    errors_as_exit_codes,
    fail,
    print_error,
)
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
from rocketmq_emulator.cli.screens.cluster_tables import a_table, topics_table
from rocketmq_emulator.cluster.control.client import announced_control
from rocketmq_emulator.cluster.node_view import SILENT, TopicMade, named_states
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.text.values import in_natural_order

PERMS = {"r": 4, "w": 2, "rw": 6}

app = typer.Typer(no_args_is_help=True, help="Create, show and delete topics.")
NewName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Name = Annotated[
    str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="The topic.")
]


@app.command()
def create(
    name: NewName,
    queues: Annotated[
        int, typer.Option(min=1, max=65_535, metavar="N", help="Queues on each broker.")
    ] = 4,
    perm: Annotated[
        str,
        typer.Option(metavar="rw|r|w", autocompletion=one_of(PERMS), help="What clients may do."),
    ] = "rw",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """Create a topic on every broker, or change it."""
    with errors_as_exit_codes():
        if perm not in PERMS:
            raise BadUse(f"--perm is one of {', '.join(PERMS)}, not {perm!r}")

        topic = TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=PERMS[perm]
        )
        answers = call_cluster(namesrv, partial(_create, topic))
        silent = {broker: error for broker, error in answers.items() if error is not None}
        made = _made(name, answers, namesrv)
        if not made.brokers:
            raise next(iter(silent.values()), None) or _no_broker(made.missing)
        if as_json:
            show_json({"topic": name, "queues": queues, **msgspec.structs.asdict(made)})
        else:
            show_line(f"{name}: {queues} queues on each of {', '.join(made.brokers)}")
        if made.warning:
            print_error(made.warning)
        if silent:
            raise typer.Exit(INCOMPLETE)


async def _create(topic: TopicConfig, admin: Admin) -> dict[str, ClusterUnreachable | None]:
    """Create *topic* on every broker in the route; the error of each that does not answer."""
    answers: dict[str, ClusterUnreachable | None] = {}
    for broker, address in (await admin.masters()).items():
        try:
            await admin.create_topic(address, topic)
        except ClusterUnreachable as error:
            answers[broker] = error
        else:
            answers[broker] = None
    return answers


def _made(name: str, answers: Mapping[str, ClusterUnreachable | None], namesrv: str) -> TopicMade:
    """Where the topic was made, and where not: a dead broker is not in the route.

    The control address of ``up`` knows those; without one only silent brokers are missing.
    """
    made = [broker for broker, error in answers.items() if error is None]
    missing = {broker: SILENT for broker, error in answers.items() if error is not None}
    control = announced_control(namesrv)
    with suppress(AdminError):  # it has just ended
        for node in () if control is None else control.nodes():
            if node.role == "broker" and node.name not in made and node.state != "running":
                missing[node.name] = node.state
    return TopicMade.of(name, made, missing)


def _no_broker(missing: Mapping[str, str]) -> typer.Exit:
    if missing:
        return fail(f"there is only {named_states(missing)}: start one with `rmqemu start`")
    return fail("there is no broker to make it on: start one with `rmqemu broker`")


@app.command("list")
def list_(namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """List all topics except the brokers' internal ones."""
    with errors_as_exit_codes():
        overview = read_cluster(namesrv)
        more = overview.more_topics
        show_as(overview.topics, lambda topics: topics_table(topics, more), as_json=as_json)
        check_complete(overview)


@app.command()
def describe(name: Name, namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show a topic's queues, broker by broker, and its groups."""
    with errors_as_exit_codes():

        async def look(admin: Admin) -> dict[str, object]:
            await admin.route(name)  # raises if there is no such topic
            masters = await admin.masters()
            queues: list[dict[str, Any]] = []
            groups: dict[str, None] = {}
            for broker, address in masters.items():
                table = (await admin.topic_stats_if_any(address, name)).offset_table
                groups |= dict.fromkeys(await admin.groups_of_topic(address, name))
                for queue, offsets in sorted(table.items()):
                    queues.append(
                        {
                            "broker": broker,
                            "queue": queue.queue_id,
                            "first": offsets.min_offset,
                            "next": offsets.max_offset,
                            "stored_last_ms": offsets.last_update_timestamp,
                        }
                    )
            return {"topic": name, "queues": queues, "groups": in_natural_order(groups)}

        found = call_cluster(namesrv, look)
        if as_json:
            show_json(found)
        else:
            _draw(found)


@app.command()
def delete(
    name: Name, yes: Yes = False, namesrv: Namesrv = NAMESRV, as_json: AsJson = False
) -> None:
    """Delete a topic with all its messages.  A program that still sends may create it again."""

    async def look(admin: Admin) -> tuple[dict[str, str], int, dict[str, None]]:
        try:
            brokers = await admin.brokers_of(name)
        except TopicMissing as error:
            # Without the advice to create it.
            raise NotFound(f"there is no topic {name}{error.why}") from None
        stored, groups = 0, dict[str, None]()
        for address in brokers.values():
            stats = await admin.topic_stats_if_any(address, name)
            stored += sum(at.max_offset - at.min_offset for at in stats.offset_table.values())
            groups |= dict.fromkeys(await admin.groups_of_topic(address, name))
        return brokers, stored, groups

    async def remove(admin: Admin) -> None:
        await delete_topic_everywhere(admin, name, brokers)

    brokers, stored, groups = call_cluster(namesrv, look)
    readers = f", which {', '.join(in_natural_order(groups))} consume" if groups else ""
    where = ", ".join(brokers)
    confirm(f"Delete {name} on {where} with its {stored:,} messages{readers}?", yes=yes)
    call_cluster(namesrv, remove)
    if as_json:
        show_json({"topic": name, "brokers": list(brokers), "messages": stored})
    else:
        show_line(f"{name} is deleted on {where}; {stored:,} messages are gone")


def _draw(found: dict[str, Any]) -> None:
    table = a_table("broker", "queue", "first", "next", numbers=("queue", "first", "next"))
    for queue in found["queues"]:
        table.add_row(
            queue["broker"], f"{queue['queue']}", f"{queue['first']:,}", f"{queue['next']:,}"
        )
    show(table)
    show_line(f"consumed by: {', '.join(found['groups']) or 'nobody'}")

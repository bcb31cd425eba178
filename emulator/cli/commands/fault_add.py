"""``fault add``: a command for each fault, with the fault's own fields as options.

``--ms`` is the field ``ms``; without the option the field has its default.  A command parses its
fault as the control address does, so that both refuse the same faults with the same errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from rocketmq_emulator.cli.commands.nodes import ControlAt
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import NAMESRV, AsJson, Namesrv, show_json
from rocketmq_emulator.cluster.control.client import find_control
from rocketmq_emulator.cluster.fault_values import (
    FAULTS,
    Answer,
    Bandwidth,
    Busy,
    ClockDrift,
    ClockJump,
    CutLink,
    FailingFlush,
    Fault,
    FaultState,
    FullDisk,
    Kill,
    Partition,
    Pause,
    PowerOff,
    ReadOnly,
    RefuseConnections,
    SlowDisk,
    SlowLink,
    StallLink,
    Stop,
    Unregistered,
    word_of,
)
from rocketmq_emulator.cluster.faults.reading import BadFault, parse_fault
from rocketmq_emulator.text.docstrings import docstring_of

NAME_SEPARATOR, LINK_END_SEPARATOR = "+", ","  # between=broker-a+broker-b,clients

adding = typer.Typer(help="Begin a fault; it holds for a time, or until it is removed.")


def _names(text: str) -> str | list[str]:
    names = text.split(NAME_SEPARATOR)
    return names if len(names) > 1 else text


def _link_ends(text: str) -> list[str | list[str]]:
    return [_names(side) for side in text.split(LINK_END_SEPARATOR)]


def _rule(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadUse(f"--rule is JSON as in docs/reply-rules.md: {error}") from error


Node = Annotated[str, typer.Option(metavar="NODE")]
Broker = Annotated[str, typer.Option(metavar="BROKER")]
Name = Annotated[str, typer.Option(metavar="NAME")]
Number = Annotated[int, typer.Option(metavar="NUMBER")]
Decimal = Annotated[float, typer.Option(metavar="NUMBER")]
Between = Annotated[Any, typer.Option(metavar="NODES,NODES", parser=_link_ends)]
Around = Annotated[Any, typer.Option(metavar="NODES", parser=_names)]
OneWay = Annotated[bool, typer.Option("--one-way", help="Only traffic from the first side.")]
For = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Such as 20s.")]


class Order(NamedTuple):
    """The options that every fault has."""

    duration: str | None
    control: str
    namesrv: str
    as_json: bool


def word_of_kind(kind: type[Fault]) -> str:
    """The word for the faults of class *kind*."""
    return next(word for word, known in FAULTS.items() if known is kind)


def _adds(kind: type[Fault]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command that begins a fault of *kind*, whose docstring is its help."""
    return adding.command(word_of_kind(kind), help=docstring_of(kind))


def _of_node(kind: type[Fault]) -> Callable[..., None]:
    def command(
        node: Node,
        duration: For = None,
        control: ControlAt = "",
        namesrv: Namesrv = NAMESRV,
        as_json: AsJson = False,
    ) -> None:
        begin(word_of_kind(kind), Order(duration, control, namesrv, as_json), node=node)

    return command


for _kind in (Kill, Stop, Pause, PowerOff):
    _adds(_kind)(_of_node(_kind))


@_adds(Busy)
def _busy(
    node: Node,
    pool: Name = "send",
    threads: Number = 1,
    service_ms: Decimal = 10.0,
    queue_max: Annotated[int | None, typer.Option(metavar="NUMBER")] = None,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "busy",
        Order(duration, control, namesrv, as_json),
        node=node,
        pool=pool,
        threads=threads,
        service_ms=service_ms,
        queue_max=queue_max,
    )


@_adds(ClockJump)
def _clock_jump(
    node: Node,
    ms: Number,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("clock_jump", Order(duration, control, namesrv, as_json), node=node, ms=ms)


@_adds(ClockDrift)
def _clock_drift(
    node: Node,
    ppm: Number,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("clock_drift", Order(duration, control, namesrv, as_json), node=node, ppm=ppm)


@_adds(FullDisk)
def _full_disk(
    node: Node,
    free_bytes: Number = 0,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "full_disk", Order(duration, control, namesrv, as_json), node=node, free_bytes=free_bytes
    )


@_adds(SlowDisk)
def _slow_disk(
    node: Node,
    flush_ms: Decimal = 500.0,
    bytes_per_s: Number = 200_000_000,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "slow_disk",
        Order(duration, control, namesrv, as_json),
        node=node,
        flush_ms=flush_ms,
        bytes_per_s=bytes_per_s,
    )


@_adds(FailingFlush)
def _failing_flush(
    node: Node,
    probability: Decimal = 1.0,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "failing_flush",
        Order(duration, control, namesrv, as_json),
        node=node,
        probability=probability,
    )


@_adds(SlowLink)
def _slow_link(
    ms: Decimal,
    between: Between = None,
    around: Around = None,
    one_way: OneWay = False,
    jitter_ms: Decimal = 0.0,
    distribution: Name = "uniform",
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "slow_link",
        Order(duration, control, namesrv, as_json),
        between=between,
        around=around,
        one_way=one_way,
        ms=ms,
        jitter_ms=jitter_ms,
        distribution=distribution,
    )


@_adds(Bandwidth)
def _bandwidth(
    bytes_per_s: Number,
    between: Between = None,
    around: Around = None,
    one_way: OneWay = False,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "bandwidth",
        Order(duration, control, namesrv, as_json),
        between=between,
        around=around,
        one_way=one_way,
        bytes_per_s=bytes_per_s,
    )


def _of_link(kind: type[Fault]) -> Callable[..., None]:
    def command(
        between: Between = None,
        around: Around = None,
        one_way: OneWay = False,
        duration: For = None,
        control: ControlAt = "",
        namesrv: Namesrv = NAMESRV,
        as_json: AsJson = False,
    ) -> None:
        begin(
            word_of_kind(kind),
            Order(duration, control, namesrv, as_json),
            between=between,
            around=around,
            one_way=one_way,
        )

    return command


for _link_kind in (StallLink, Partition, RefuseConnections, CutLink):
    _adds(_link_kind)(_of_link(_link_kind))


@_adds(ReadOnly)
def _read_only(
    broker: Broker,
    topic: Annotated[str, typer.Option(help="This topic only.")] = "",
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("read_only", Order(duration, control, namesrv, as_json), broker=broker, topic=topic)


@_adds(Unregistered)
def _unregistered(
    broker: Broker,
    name_server: Name,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin(
        "unregistered",
        Order(duration, control, namesrv, as_json),
        broker=broker,
        name_server=name_server,
    )


@_adds(Answer)
def _answer(
    node: Node,
    rule: Annotated[object, typer.Option(metavar="JSON", parser=_rule)],
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("answer", Order(duration, control, namesrv, as_json), node=node, rule=rule)


def begin(word: str, order: Order, **fields: object) -> None:
    """Begin the fault *word* with these *fields*, and show it."""
    with errors_as_exit_codes():
        body = {"fault": word, **fields}
        if order.duration is not None:
            body["for"] = order.duration
        state = find_control(order.control, order.namesrv).begin_fault(_checked(body))
    _show_begun(state, as_json=order.as_json)


def _checked(body: dict[str, object]) -> dict[str, object]:
    """*body* without the fields that have their defaults.  Raises ``BadUse``."""
    try:
        fault, _ = parse_fault(body)
    except BadFault as error:
        raise BadUse(str(error)) from error
    checked: dict[str, object] = msgspec.to_builtins(fault)
    return checked | ({"for": body["for"]} if "for" in body else {})


def _show_begun(state: FaultState, *, as_json: bool) -> None:
    if as_json:
        show_json(state)
        return
    touched = f" at {', '.join(state.nodes)}" if state.nodes else ""
    left = f" for {seconds_text(state.left_ms)}" if state.left_ms is not None else ""
    typer.echo(f"fault {state.fault_id}: {word_of(state.fault)}{touched}{left}")


def seconds_text(ms: int) -> str:
    """*ms* as ``1.5 s``."""
    return f"{round(ms / 1000, 1):g} s"

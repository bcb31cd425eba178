"""``fault add``: a command for each fault, with the fault's own fields as options.

``--ms`` is the field ``ms``; without the option the field has its default.  A command parses its
fault as the control address does, so that both refuse the same faults with the same errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
import typer

from rocketmq_emulator.cli.commands.nodes import ControlAt
from rocketmq_emulator.cli.options.completion import complete_node, complete_topic, one_of
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    duration_s,
    show_json,
    show_line,
)
from rocketmq_emulator.cli.screens.held_changes import UNTIL_REMOVED, seconds_text
from rocketmq_emulator.cluster.control.client import find_control
from rocketmq_emulator.cluster.fault_values import (
    FAULTS,
    Answer,
    Bandwidth,
    Busy,
    ClockDrift,
    ClockJump,
    CutLink,
    Distribution,
    FailingFlush,
    Fault,
    FaultState,
    FullDisk,
    Kill,
    Lag,
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
from rocketmq_emulator.protocol.bodies.extensions import PoolName
from rocketmq_emulator.text.docstrings import docstring_of

FIELD = re.compile(r"\*(\w+)\*")
NAME_SEPARATOR, LINK_END_SEPARATOR = "+", ","  # between=broker-a+broker-b,clients

adding = typer.Typer(
    no_args_is_help=True, help="Begin a fault; it holds for a time, or until it is removed."
)


def _names(text: str) -> str | list[str]:
    names = text.split(NAME_SEPARATOR)
    return names if len(names) > 1 else text


def _link_ends(text: str) -> list[str | list[str]]:
    return [_names(side) for side in text.split(LINK_END_SEPARATOR)]


def _rule(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadUse(f"--rule is JSON, see `rmqemu docs reply-rules`: {error}") from error


Node = Annotated[
    str, typer.Option(metavar="NODE", autocompletion=complete_node, help="At this node.")
]
Broker = Annotated[
    str, typer.Option(metavar="BROKER", autocompletion=complete_node, help="At this broker.")
]
NameServer = Annotated[
    str,
    typer.Option(metavar="NODE", autocompletion=complete_node, help="This NameServer rejects it."),
]
Pool = Annotated[
    str,
    typer.Option(
        metavar="POOL",
        autocompletion=one_of(get_args(PoolName)),
        help="A pool of the broker: docs/reply-rules.md.",
    ),
]
Spread = Annotated[
    str,
    typer.Option(
        metavar="|".join(get_args(Distribution)),
        autocompletion=one_of(get_args(Distribution)),
        help="How --jitter-ms is spread.",
    ),
]
Count = Annotated[int, typer.Option(metavar="N", help="How many threads.")]
CountMax = Annotated[int | None, typer.Option(metavar="N", help="At most so many requests wait.")]
HoldsLog = Annotated[bool, typer.Option("--holds-log", help="Sends hold the log's lock.")]
Ms = Annotated[float, typer.Option(metavar="MS", help="Milliseconds.")]
WholeMs = Annotated[int, typer.Option(metavar="MS", help="Milliseconds; negative: back.")]
Ppm = Annotated[int, typer.Option(metavar="PPM", help="Microseconds per second.")]
Bytes = Annotated[int, typer.Option(metavar="BYTES", help="Bytes.")]
BytesPerSecond = Annotated[int, typer.Option(metavar="BYTES", help="Bytes per second.")]
Share = Annotated[float, typer.Option(metavar="0..1", help="The share that fails.")]
Between = Annotated[
    Any,
    typer.Option(
        metavar="NODES,NODES",
        parser=_link_ends,
        autocompletion=complete_node,
        help="Two sides, as broker-a+broker-b,clients.",
    ),
]
Around = Annotated[
    Any,
    typer.Option(
        metavar="NODES",
        parser=_names,
        autocompletion=complete_node,
        help="All links of these nodes, as broker-a+broker-b.",
    ),
]
OneWay = Annotated[bool, typer.Option("--one-way", help="Only traffic from the first side.")]
For = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=duration_s,
        show_default=UNTIL_REMOVED,
        help="How long it holds, such as 20s.",
    ),
]


class Order(NamedTuple):
    """The options that every fault has."""

    duration: float | None
    control: str
    namesrv: str
    as_json: bool


def word_of_kind(kind: type[Fault]) -> str:
    """The word for the faults of class *kind*."""
    return next(word for word, known in FAULTS.items() if known is kind)


def _adds(kind: type[Fault]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command that begins a fault of *kind*, whose docstring is its help."""
    return adding.command(word_of_kind(kind), help=_help_of(kind))


def _help_of(kind: type[Fault]) -> str:
    """The docstring of *kind*, in which ``*jitter_ms*`` is an option: ``--jitter-ms``."""
    text = docstring_of(kind) or ""
    return FIELD.sub(lambda field: f"--{field[1].replace('_', '-')}", text)


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
    pool: Pool = "send",
    threads: Count = 1,
    service_ms: Ms = 10.0,
    queue_max: CountMax = None,
    holds_log: HoldsLog = False,
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
        holds_log=holds_log,
    )


@_adds(ClockJump)
def _clock_jump(
    node: Node,
    ms: WholeMs,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("clock_jump", Order(duration, control, namesrv, as_json), node=node, ms=ms)


@_adds(ClockDrift)
def _clock_drift(
    node: Node,
    ppm: Ppm,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("clock_drift", Order(duration, control, namesrv, as_json), node=node, ppm=ppm)


@_adds(FullDisk)
def _full_disk(
    node: Node,
    free_bytes: Bytes = 0,
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
    flush_ms: Ms = 500.0,
    bytes_per_s: BytesPerSecond = 200_000_000,
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
    probability: Share = 1.0,
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
    ms: Ms,
    between: Between = None,
    around: Around = None,
    one_way: OneWay = False,
    jitter_ms: Ms = 0.0,
    distribution: Spread = "uniform",
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
    bytes_per_s: BytesPerSecond,
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


@_adds(Lag)
def _lag(
    node: Node,
    ms: Ms = 0.0,
    jitter_ms: Ms = 0.0,
    bytes_per_s: Annotated[
        int | None, typer.Option(metavar="BYTES", help="At most so many a second.")
    ] = None,
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    order = Order(duration, control, namesrv, as_json)
    begin("lag", order, node=node, ms=ms, jitter_ms=jitter_ms, bytes_per_s=bytes_per_s)


@_adds(ReadOnly)
def _read_only(
    broker: Broker,
    topic: Annotated[
        str, typer.Option(metavar="TOPIC", autocompletion=complete_topic, help="This topic only.")
    ] = "",
    duration: For = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    begin("read_only", Order(duration, control, namesrv, as_json), broker=broker, topic=topic)


@_adds(Unregistered)
def _unregistered(
    broker: Broker,
    name_server: NameServer,
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
    rule: Annotated[
        object,
        typer.Option(metavar="JSON", parser=_rule, help="The rule: docs/reply-rules.md."),
    ],
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
            body["for"] = f"{round(order.duration * 1_000)}ms"
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
    show_line(f"fault {state.fault_id}: {word_of(state.fault)}{touched}{left}")

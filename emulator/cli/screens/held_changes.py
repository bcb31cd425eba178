"""Faults, reply rules and full journals, as rows of ``status`` and of the live view.

A cluster that behaves oddly may do so because somebody asked for it: so both show what holds.  A
journal that lacks facts is shown there as well, because nothing else looks wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from rich.text import Text

from rocketmq_emulator.cli.screens.columns import Column, Sheet, clean
from rocketmq_emulator.cluster.fault_values import Answer, Fault, FaultState, word_of
from rocketmq_emulator.protocol.codes import REQUEST_NAMES, RESPONSE_NAMES

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.bodies.extensions import ReplyRule, ReplyRuleState

MINUTE_MS = 60_000
UNTIL_REMOVED = "until removed"
ELSEWHERE = ("fault", "node", "between", "around")  # shown as the nodes of a fault
MATCHED = ("topic", "group", "client_id", "broker_name")
COLUMNS = (
    Column("holds"),
    Column("at", narrow=8),
    Column("what it does", narrow=20),
    Column("left"),
    Column("acted", is_number=True),
)


class HeldChange(msgspec.Struct, frozen=True):
    """A fault or a reply rule that holds: its id, its nodes, its effect, how long, how often.

    Or a journal on a full disk, with the number of facts that are missing in it.
    """

    name: str
    nodes: tuple[str, ...]
    effect: str
    left: str
    acted_count: int


def held_changes(
    faults: Sequence[FaultState],
    rules: Mapping[str, Sequence[ReplyRuleState]],
    left_out: Mapping[str, int],
) -> tuple[HeldChange, ...]:
    """All *faults*, then all *rules*, which are given by node, but for those of a fault.

    Behind them the journals that lack facts, whose numbers are *left_out*, by node.
    """
    of_faults = [
        (node, state.fault.rule)
        for state in faults
        if isinstance(state.fault, Answer)
        for node in state.nodes
    ]
    return (
        *(
            HeldChange(
                name=f"fault {state.fault_id}",
                nodes=state.nodes,
                effect=fault_text(state.fault),
                left=UNTIL_REMOVED if state.left_ms is None else seconds_text(state.left_ms),
                acted_count=state.acted_count,
            )
            for state in faults
        ),
        *(
            HeldChange(
                name=f"rule {state.rule_id}",
                nodes=(node,),
                effect=rule_text(state.rule),
                left=UNTIL_REMOVED if state.left_count is None else f"{state.left_count} times",
                acted_count=state.applied_count,
            )
            for node, states in rules.items()
            for state in states
            if (node, state.rule) not in of_faults
        ),
        *(
            HeldChange("journal", (node,), "its disk was full, facts are missing", "", count)
            for node, count in left_out.items()
        ),
    )


def held_sheet(held: Sequence[HeldChange]) -> Sheet:
    """A row per fault and rule."""
    return Sheet(
        COLUMNS,
        [
            (
                Text(each.name, "yellow"),
                clean(", ".join(each.nodes)),
                clean(each.effect),
                each.left,
                f"{each.acted_count:,}",
            )
            for each in held
        ],
    )


def fault_text(fault: Fault) -> str:
    """The word and the given fields, without nodes: ``slow_link ms=200``."""
    if isinstance(fault, Answer):
        times = f", {fault.rule.count} times" if fault.rule.count else ""
        return f"{word_of(fault)} {rule_text(fault.rule)}{times}"
    given = msgspec.to_builtins(fault)
    fields = [name for name in given if name not in ELSEWHERE]
    return " ".join([word_of(fault), *(f"{name}={given[name]}" for name in fields)])


def rule_text(rule: ReplyRule) -> str:
    """The requests and the verdict: ``SEND_MESSAGE_V2 topic=orders: SYSTEM_BUSY``."""
    code, error = rule.code, rule.error_code
    request = "any request" if code is None else REQUEST_NAMES.get(int(code), str(code))
    names = [f"{name}={getattr(rule, name)}" for name in MATCHED if getattr(rule, name)]
    share = [f"{rule.probability:.0%} of them"] if rule.probability < 1 else []
    verdicts = {
        f"{rule.delay_ms} ms late": rule.delay_ms,
        "" if error is None else RESPONSE_NAMES.get(int(error), str(error)): error is not None,
        "no answer": rule.no_answer,
        "its connection is closed": rule.cut_connection,
    }
    done = ", ".join(text for text, is_given in verdicts.items() if is_given)
    return f"{' '.join([request, *names, *share])}: {done}"


def seconds_text(ms: int) -> str:
    """*ms* as ``1.5 s``; from a minute on as ``9 min 57 s``."""
    if ms < MINUTE_MS:
        return f"{round(ms / 1000, 1):g} s"
    minutes, rest = divmod(ms, MINUTE_MS)
    return f"{minutes} min {rest // 1000} s" if rest >= 1000 else f"{minutes} min"

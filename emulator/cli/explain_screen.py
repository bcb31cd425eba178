"""What ``explain`` shows: at most 40 lines, none wider than 160 columns.

The evidence comes first, then whose it was, then the facts around, then what else is wrong.  Where
the lines run short it is the facts around that give way, and then what expectations lacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from emulator.cli.columns import clean
from scenarios.running.expected import UnmetExpectations
from scenarios.running.explaining import Explanation
from scenarios.running.shortfalls import Shortfall
from scenarios.running.turning import TurningPoint
from scenarios.telling.runs import Told

LINES_MAX, WIDTH_MAX = 40, 160
WHOSE_MAX = 12  # lines
HEAD_MAX = 3  # lines of what happened, and of the rule
AROUND_MIN = 6  # facts around that are told, however much else there is
UNMET_MAX = 8  # expectations
EACH_MAX = 14  # lines about one of them
LET_OFF_MAX = 3  # lines of causes


def explanation_lines(
    found: Explanation | None,
    expected: UnmetExpectations,
    unknown: Sequence[str],
    *,
    room: int = LINES_MAX,
) -> list[str]:
    """Everything that is known of what went wrong, in *room* lines; nothing if nothing did."""
    lines_max = room
    first = [] if found is None else _violation(found)
    last = [
        line for why in unknown for line in wrap(f"this is no pass: {why}", WIDTH_MAX)[:HEAD_MAX]
    ]
    room = lines_max - len(first) - len(last)
    if found is not None:
        room -= 2 + min(AROUND_MIN, sum(not told.is_evidence for told in found.facts))
    said = set() if found is None else {line.strip() for line in found.whose}
    after = _expectations(expected, said, max(room, len(expected.unmet[:UNMET_MAX])))
    room = lines_max - len(first) - len(after) - len(last)
    around = [] if found is None else _around(found, max(room, 0))
    return [*first, *around, *after, *last]


def let_off_lines(excuses: Mapping[str, float]) -> list[str]:
    """What was let off, by cause, and how often; an expectation may bound each."""
    if not excuses:
        return []
    causes = [f"{name} {count:g}" for name, count in excuses.items()]
    lines = wrap(f"let off: {', '.join(causes)}", WIDTH_MAX)
    if len(lines) > LET_OFF_MAX:
        lines[LET_OFF_MAX - 1] = f"{lines[LET_OFF_MAX - 1][: WIDTH_MAX - 2]} …"
    return lines[:LET_OFF_MAX]


def _violation(found: Explanation) -> list[str]:
    violation = found.violation
    who = f", {violation.node}" if violation.node else ""
    at = f"{violation.mono_us / 1_000_000:.3f} s"
    lines = wrap(f"{violation.checker} at {at}{who}: {violation.what}", WIDTH_MAX)[:HEAD_MAX]
    lines += wrap(f"what should have happened: {violation.rule}", WIDTH_MAX)[:HEAD_MAX]
    lines += [f"a fault that held: {fault}" for fault in found.faults]
    lines.append("the facts that show it:")
    lines += [told_line(told) for told in found.facts if told.is_evidence]
    if found.whose:
        lines += ["whose it was:", *(f"  {line}" for line in found.whose[:WHOSE_MAX])]
    lines += [f"also: {line}" for line in found.others]
    return [_cut(line) for line in lines]


def _around(found: Explanation, room: int) -> list[str]:
    """Of the facts around those that have most to do with it, as many as there is room for."""
    around = [told for told in found.facts if not told.is_evidence]
    if not around or room < 3:
        return []
    shown = sorted(_nearest(around, room - 2, found), key=lambda told: told.at_s)
    left_out = found.left_out + sum(told.count for told in around) - sum(t.count for t in shown)
    lines = ["what has to do with it:", *map(told_line, shown)]
    if left_out:
        lines.append(f"  and {left_out:,} more facts")
    return [_cut(line) for line in lines]


def _nearest(around: Sequence[Told], count: int, found: Explanation) -> Iterable[Told]:
    moments = [told.at_s for told in found.facts if told.is_evidence] or [0.0]
    return sorted(
        around, key=lambda told: (told.rank, min(abs(told.at_s - at_s) for at_s in moments))
    )[:count]


def _expectations(expected: UnmetExpectations, said: set[str], room: int) -> list[str]:
    """Each that was not met, and why, as far as there is room."""
    unmet = expected.unmet[:UNMET_MAX]
    lines = list(unmet)
    if (more := len(expected.unmet) - UNMET_MAX) > 0:
        lines.append(f"and {more} more expectations")
    parts = [_shortfall(short, said) for short in expected.shortfalls]
    parts = [part for part in parts if len(part) > 1] + [_turn(turn) for turn in expected.turns]
    for part in parts:
        left = min(room - len(lines), EACH_MAX if len(parts) > 1 else room)
        if left < 2:
            break
        lines += part if len(part) <= left else [*part[: left - 1], "  …"]
    return [_cut(line) for line in lines]


def _shortfall(short: Shortfall, said: set[str]) -> list[str]:
    """Without what was *said* before, which it adds to."""
    new = [line for line in short.why if line.strip() not in said]
    said.update(line.strip() for line in new)
    return [f"why not {short.expected}:", *(f"  {line}" for line in new)]


def _turn(turn: TurningPoint) -> list[str]:
    return [
        f"{turn.expected} was met until {turn.at_s:.3f} s",
        *(f"a fault that held: {fault}" for fault in turn.faults),
        "the facts (> the one with which it was not met any more):",
        *map(told_line, sorted(turn.facts, key=lambda told: (told.at_s, told.is_evidence))),
    ]


def told_line(told: Told) -> str:
    """``>`` marks the evidence."""
    mark = ">" if told.is_evidence else " "
    return f"{mark} {told.at_s:10.3f} s  {told.node:<12}  {told.text}"


def _cut(line: str) -> str:
    line = clean(line)
    return line if len(line) <= WIDTH_MAX else f"{line[: WIDTH_MAX - 1]}…"

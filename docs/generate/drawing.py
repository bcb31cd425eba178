"""docs/failures.svg: a lane for each queue, with its owner and its deliveries over time.

A lane is pale while the queue has an owner, in full colour while messages reach that owner, and
white while the queue has no owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docs.generate import failure_run as story
from docs.generate.episodes import SILENCE_S_MIN, Delivery, Queue, Seen, deliveries, queues_in

WIDTH, LEFT, TOP, LANE, BAR = 960, 96, 58, 24, 16
RIGHT = 32
COLOURS = dict(zip(story.CONSUMERS, ("#2a78c2", "#d1632b", "#3c9a57"), strict=True))
BLOWS = {
    story.CONSUMER_KILLED_S: "consumer-b killed",
    story.CONSUMER_BACK_S: "back",
    story.CONSUMER_SILENT_S: "consumer-c falls silent",
    story.BROKER_KILLED_S: "broker-b killed",
    story.BROKER_BACK_S: "back",
    story.BROKER_SILENT_S: "broker-b falls silent",
}
DEATHS = {story.CONSUMER_KILLED_S: "consumer-b", story.CONSUMER_SILENT_S: "consumer-c"}
INK, FAINT, BAD = "#333", "#bbb", "#c22"
Run = tuple[float, float, str]  # from, to, consumer


def picture(facts: Sequence[Seen]) -> str:
    queues = deliveries(facts)
    bottom = TOP + LANE * (len(queues) + 1)
    box = f'viewBox="0 0 {WIDTH} {bottom + 58}" font-family="sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<rect width="{WIDTH}" height="{bottom + 58}" rx="6" fill="#fff"/>',
        *_blows(bottom),
        *_axis(bottom),
    ]
    for lane, (queue, delivered) in enumerate(queues.items()):
        y = TOP + LANE * lane
        parts.append(_text(LEFT - 8, y + 12, f"{queue[1]}/{queue[2]}", "end"))
        parts += [_bar(y, run, 0.25) for run in owners(facts, queue)]
        parts += [_bar(y, run, 1) for run in flows(delivered)]
    parts += [*_failed_sends(facts, bottom - LANE), *_legend(bottom + 44), "</svg>\n"]
    return "\n".join(parts)


def owners(facts: Sequence[Seen], queue: Queue) -> Iterator[Run]:
    """The times in which each consumer owned *queue* by its own facts, until its death."""
    since_s, owner = 0.0, ""
    for fact in [*facts, *_deaths()]:
        takes = fact.kind == "QueuesClaimed" and queue in queues_in(fact)
        loses = fact.node == owner and (
            fact.kind == "Died" or (fact.kind == "QueuesReleased" and queue in queues_in(fact))
        )
        if (takes or loses) and owner:
            yield since_s, fact.at_s, owner
        if takes or loses:
            since_s, owner = fact.at_s, fact.node if takes else ""
    if owner:
        yield since_s, story.END_S, owner


def flows(delivered: Sequence[Delivery]) -> Iterator[Run]:
    """The times in which one consumer received a queue's messages without a gap."""
    first = last = delivered[0]
    for delivery in delivered[1:]:
        if delivery.node != last.node or delivery.at_s - last.at_s > SILENCE_S_MIN:
            yield first.at_s, last.at_s, first.node
            first = delivery
        last = delivery
    yield first.at_s, last.at_s, first.node


def _deaths() -> list[Seen]:
    return [Seen(at_s, node, "Died", {}) for at_s, node in DEATHS.items()]


# Marks ------------------------------------------------------------------------------------


def _x(at_s: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * at_s / story.END_S, 1)


def _bar(y: int, run: Run, opacity: float) -> str:
    begin_s, end_s, node = run
    x, width = _x(begin_s), max(1.0, _x(end_s) - _x(begin_s))
    return (
        f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" '
        f'fill="{COLOURS[node]}" fill-opacity="{opacity}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = INK) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}">{text}</text>'


def _line(x: float, top: int, bottom: int, stroke: str) -> str:
    return f'<path d="M{x} {top}V{bottom}" stroke="{stroke}" stroke-width="1"/>'


def _blows(bottom: int) -> Iterator[str]:
    for at_s, text in BLOWS.items():
        y = 36 if text == "back" else 18
        yield _line(_x(at_s), y + 4, bottom, FAINT)
        yield _text(_x(at_s) - 3, y, text)


def _axis(bottom: int) -> Iterator[str]:
    for at_s in range(0, story.END_S + 1, 60):
        yield _line(_x(at_s), bottom, bottom + 4, INK)
        yield _text(_x(at_s), bottom + 17, f"{at_s // 60} min", "middle")


def _failed_sends(facts: Sequence[Seen], y: int) -> Iterator[str]:
    yield _text(LEFT - 8, y + 12, "failed sends", "end")
    for fact in facts:
        if fact.kind == "SendFailed":
            yield _line(_x(fact.at_s), y, y + BAR, BAD)


def _legend(y: int) -> Iterator[str]:
    x = LEFT
    for node, colour in COLOURS.items():
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 17, y, node)
        x += 110
    yield _text(x, y, "pale: owned, no messages; white: no owner; stripes: two owners")

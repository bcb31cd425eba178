"""The tables of docs/studies/idle.md."""

from __future__ import annotations

from docs.generate.study_data import Pool, one, pooled
from docs.generate.study_parts import EVEN, RING, STRATEGIES, half, spread, table

MEMBERS = (2, 3, 4, 5, 6, 8, 12, 16)
PLACES = ("first", "middle", "last")


def brokers_text() -> str:
    """The number of idle members, by the read-only one of three brokers."""
    members = range(2, 13)
    rows = []
    for strategy in (*EVEN, RING):
        for place in PLACES:
            row = [STRATEGIES[strategy], place]
            for count in members:
                at = {"strategy": strategy, "read_only": place, "members": count}
                idle = one("idle-brokers", "read_only_idle_members", **at)
                sure = f" ± {half(idle):.1f}" if half(idle) else ""
                row.append(
                    f"{idle['mean']:.1f}{sure}" if strategy == RING else f"{idle['mean']:g}"
                )
            rows.append(row)
    return table(["", "read-only", *(f"{count} members" for count in members)], rows)


def shapes_text() -> str:
    """The share of idle members: the mean over brokers, the smallest and the largest."""
    rows = []
    for brokers in (2, 3, 4, 5, 6):
        for queues in (4, 8):
            for strategy in (*EVEN, RING):
                row = [f"{brokers} × {queues}", STRATEGIES[strategy]]
                row += [_share(strategy, brokers, queues, count) for count in MEMBERS]
                rows.append(row)
    return table(["brokers × queues", "", *(f"{count} members" for count in MEMBERS)], rows)


def _share(strategy: str, brokers: int, queues: int, members: int) -> str:
    at = {"strategy": strategy, "brokers": brokers, "queues": queues, "members": members}
    mean = one("idle-shapes", "read_only_mean_share", **at)
    least = one("idle-shapes", "read_only_least_share", **at)["smallest"]
    most = one("idle-shapes", "read_only_most_share", **at)["largest"]
    sure = f" ± {half(mean):.0%}" if half(mean) else ""
    ends = f" ({least:.0%}–{most:.0%})" if least != most else ""
    return f"{mean['mean']:.0%}{sure}{ends}"


def runs_text() -> str:
    """Results of virtual clusters, over all brokers, leaving members and orders of ids."""
    rows = []
    for members in (4, 8):
        for strategy, name in STRATEGIES.items():
            at = {"members": members, "strategy": strategy}
            settles = pooled("idle-runs", "settle_s", **at)
            in_ms = Pool(settles.runs, *(1_000 * each for each in settles[1:]))
            rows.append(
                [
                    f"{members}",
                    name,
                    _seconds(pooled("idle-runs", "no_load_s", **at)),
                    _computed(strategy, members),
                    _seconds(pooled("idle-backlog", "no_load_s", **at)),
                    spread(in_ms),
                ]
            )
    head = ["members", "", "idle, s", "computed", "with a backlog, s", "settles in, ms"]
    return table(head, rows)


def _seconds(found: Pool) -> str:
    """Whole seconds: idleness of milliseconds is only a queue's change of owner."""
    return spread(Pool(found.runs, *(float(round(each)) for each in found[1:])))


def _computed(strategy: str, members: int) -> str:
    """Idle seconds over all brokers, before one of *members* leaves, and after that."""
    if strategy not in (*EVEN, RING):
        return ""
    return f"{sum(computed_s(strategy, members, place) for place in PLACES) / 3:.0f}"


def computed_s(strategy: str, members: int, place: str) -> float:
    """Idle seconds computed from the table of brokers, with the broker at *place* read-only."""
    return sum(
        for_s
        * one(
            "idle-brokers",
            "read_only_idle_members",
            strategy=strategy,
            read_only=place,
            members=count,
        )["mean"]
        for count, for_s in ((members, BEFORE_S), (members - 1, AFTER_S))
    )


BEFORE_S, AFTER_S = 50, 40  # of the read-only broker, before and after a member leaves


def places_text() -> str:
    """Idle seconds by read-only broker, leaving member, and order of ids."""
    rows = []
    for members in (4, 8):
        for strategy in (*EVEN, RING):
            at = {"members": members, "strategy": strategy}
            row = [f"{members}", STRATEGIES[strategy]]
            for name, values in VARIED.items():
                row += [
                    f"{pooled('idle-runs', 'no_load_s', **at, **{name: value}).mean:.0f}"
                    for value in values
                ]
            rows.append(row)
    head = [f"{TITLES[name]} {value}" for name, values in VARIED.items() for value in values]
    return table(["members", "", *head], rows)


VARIED = {
    "read_only": PLACES,
    "leaver": PLACES,
    "order_of_ids": ("started", "reversed"),
}
TITLES = {"read_only": "broker:", "leaver": "leaves:", "order_of_ids": "ids:"}

SECTIONS = {
    "brokers": brokers_text,
    "shapes": shapes_text,
    "runs": runs_text,
    "places": places_text,
}

"""The tables of docs/studies/skew.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs.generate.study_data import Pool, curve, one, pooled, share_up_to
from docs.generate.study_parts import (
    EVEN,
    RING,
    STRATEGIES,
    half,
    of_range,
    percent,
    same,
    table,
    whole,
)

CASES = ((8, 3), (24, 5), (24, 7), (64, 10), (8, 12))  # (queues, members) of the published table
KNOWN_RING = {  # its figures for one set of ids: fewest, most, sigma, moves if the last one leaves
    (8, 3): (2, 3, None, 3),
    (24, 5): (2, 8, 2.71, 8),
    (24, 7): (1, 8, 2.56, 1),
    (64, 10): (2, 14, 4.34, 4),
    (8, 12): (0, 2, None, None),
}
EVERY = (*EVEN, RING)
NEIGHBOURS, ANYWHERE = "ip_pid_nanos", "any_ip_pid_nanos"


def even_text() -> str:
    """AVG and CIRCLE, with one value for all ids; the leaving or joining member is random."""
    rows = []
    for queues, members in CASES:
        row = [f"{queues} queues, {members} members"]
        for strategy in EVEN:
            at = {"queues": queues, "members": members, "strategy": strategy}
            near, far = {**at, "ids": NEIGHBOURS}, {**at, "ids": ANYWHERE}
            least, most = (
                same(one("skew-even", f"queues_{end}", **far)) for end in ("min", "max")
            )
            row += [
                f"{least}/{most}",
                _mean_and_range("moves_leave", far),
                _mean_and_range("moves_join", far),
                f"{one('skew-even', 'moves_join', **near)['mean']:.1f}",
            ]
        rows.append(row)
    head = ["", *(f"{STRATEGIES[s]} {what}" for s in EVEN for what in EVEN_COLUMNS)]
    return table(head, rows)


EVEN_COLUMNS = ("min/max", "one leaves", "one joins", "the newest address joins")


def _mean_and_range(metric: str, at: Mapping[str, object]) -> str:
    found = pooled("skew-even", metric, **at)
    if found.least == found.most:
        return f"{found.mean:g}"
    return f"{found.mean:.1f} ± {found.half:.1f} ({of_range(found)})"


def leavers_text() -> str:
    """The share of all queues that change their owner, by the leaving member."""
    rows = []
    for members in (3, 5, 10, 20):
        for queues in (24, 240):
            row = [f"{members} members, {queues} queues"]
            for strategy in EVERY:
                at = {"queues": queues, "members": members, "strategy": strategy}
                places = PLACES if strategy != RING else ("any",)
                for leaver in places:
                    found = pooled("skew-leavers", "moves_leave", leaver=leaver, **at)
                    row.append(percent(Pool(found.runs, *(each / queues for each in found[1:]))))
            rows.append(row)
    head = [f"{STRATEGIES[s]} {leaver}" for s in EVEN for leaver in PLACES]
    return table(["leaves:", *head, "CHASH any"], rows)


PLACES = ("first", "middle", "last", "any")


def ring_text() -> str:
    """CHASH: the distribution over 10,000 sets, and the percentiles of the published figures."""
    rows = []
    for queues, members in CASES:
        at = {"queues": queues, "members": members}
        row = [f"{queues} queues, {members} members"]
        row += [_middle(metric, at) for metric in ("queues_min", "queues_max")]
        sigma, leave = (
            one("skew-shapes", "queues_sigma", **at),
            one("skew-shapes", "moves_leave", **at),
        )
        idle = one("skew-shapes", "idle_members", **at)
        row += [whole(sigma), whole(leave, 1), whole(idle)]
        rows.append(row)
    head = ["CHASH, 10 virtual nodes", "fewest", "most", "mean σ", "mean moves, one leaves"]
    return table([*head, "idle members"], rows)


def names_text() -> str:
    """The mean σ over sets of ids, for some names of a topic."""
    rows = []
    for queues in (8, 24, 64):
        for members in (3, 5, 10):
            found = {
                topic: one(
                    "skew-topic-names", "queues_sigma", topic=topic, queues=queues, members=members
                )
                for topic in (*TOPIC_NAMES, "any")
            }
            named = sorted((found[topic]["mean"], topic) for topic in TOPIC_NAMES)
            widest = max(half(found[topic]) for topic in TOPIC_NAMES)
            (least, evenest), (most, unevenest) = named[0], named[-1]
            coins = (queues / members * (1 - 1 / members)) ** 0.5
            rows.append(
                [
                    f"{queues} queues, {members} members",
                    f"{least:.2f} (`{evenest}`)",
                    f"{most:.2f} (`{unevenest}`)",
                    f"{widest:.2f}",
                    f"{found['any']['mean']:.2f} ± {half(found['any']):.2f}",
                    f"{coins:.2f}",
                ]
            )
    head = ["mean σ", "least of 8 names", "most of 8 names", "± of each", "any name"]
    return table([*head, "coins"], rows)


TOPIC_NAMES = (
    *("orders", "payments", "invoices", "shipments"),
    *("clicks", "stock", "users", "audit"),
)


def known_text() -> str:
    """The percentile of the one published set of ids among 10,000 sets."""
    rows = []
    for shape, known in KNOWN_RING.items():
        at = {"queues": shape[0], "members": shape[1]}
        row = [f"{shape[0]} queues, {shape[1]} members"]
        metrics = ("queues_min", "queues_max", "queues_sigma", "moves_leave")
        for metric, value in zip(metrics, known, strict=True):
            row.append("" if value is None else f"{value:g}: {_percentiles(metric, value, at)}")
        rows.append(row)
    return table(["known: percentile", "fewest", "most", "σ", "moves, one leaves"], rows)


def nodes_text() -> str:
    """The effect of more virtual nodes."""
    rows = []
    for nodes in (1, 10, 100, 1_000):
        row = [f"{nodes:,}"]
        for queues, members in NODE_SHAPES:
            at = {"virtual_nodes": nodes, "members": members, "queues": queues}
            sigma, most = (one("skew-nodes", m, **at) for m in ("queues_sigma", "queues_max"))
            row += [whole(sigma), f"{most['median']:g} ({most['p99']:g})"]
        rows.append(row)
    columns = ("σ", "most: median (99 %)")
    head = [f"{q} queues, {m} members: {column}" for q, m in NODE_SHAPES for column in columns]
    return table(["virtual nodes", *head], rows)


NODE_SHAPES = ((24, 5), (64, 5), (64, 10))


def ids_text() -> str:
    """Formats of ids: evenness of the ring, and queues that a rolling restart moves."""
    shown = {
        "ip_pid": "`10.0.0.7@4211`, neighbouring addresses",
        "ip_pid_nanos": "`10.0.0.7@4211#81723…`, neighbouring addresses",
        "any_ip_pid_nanos": "the same, any addresses",
        "container": "`10.244.3.17@1#81723…`, a new address at each start",
        "pod_name": "`10.244.3.17@billing-7d9c5b6f48-x2x4q`, the same",
        "uuid": "`10.244.3.17@6f1c…`, the same",
    }
    rows = []
    for ids, text in shown.items():
        at = {"ids": ids, "surge": "false"}
        sigma = one("skew-ids", "queues_sigma", strategy=RING, **at)
        moves = [
            one("skew-ids", "moves_restart_per_queue", strategy=strategy, **at)
            for strategy in EVERY
        ]
        rows.append([text, *(whole(datum) for datum in (sigma, *moves))])
    head = [f"{STRATEGIES[s]}: moves a queue" for s in EVERY]
    return table(["ids", "CHASH: mean σ", *head], rows)


def restarts_text() -> str:
    """A rolling restart by the size of the group, beside the computed values."""
    rows = []
    for members in (2, 3, 5, 10, 20):
        row = [f"{members}"]
        for strategy in EVERY:
            row += [
                " / ".join(_restart(strategy, members, surge, queues) for queues in (24, 240))
                for surge in ("false", "true")
            ]
            row.append(f"{RESTARTS[strategy](members):.1f}")
        rows.append(row)
    columns = ("one leaves first", "one joins first", "formula")
    head = [f"{STRATEGIES[s]}, {column}" for s in EVERY for column in columns]
    return table(["members", *head], rows)


def _restart(strategy: str, members: int, surge: str, queues: int) -> str:
    at = {"members": members, "surge": surge, "queues": queues, "strategy": strategy}
    return whole(one("skew-restarts", "moves_restart_per_queue", **at), 1)


RESTARTS: Mapping[
    str, Callable[[int], float]
] = {  # moves per queue while that many members restart, each leaving first; for many queues
    "averagely": lambda members: 2 * (members + 1) / 3,
    "by_circle": lambda members: 2 * (members - 1),
    RING: lambda _: 2,
}


def topics_text() -> str:
    """Many small topics: the load of the first member, and the smallest load."""
    rows = []
    for queues in (4, 8, 16):
        for members in (3, 5, 6):
            row = [f"{queues} queues, {members} members"]
            for strategy in ("averagely", RING):
                for topics in (1, 10, 100):
                    at = {"topics": topics, "members": members, "queues": queues}
                    ratio, least = (
                        one("skew-topics", metric, strategy=strategy, **at)
                        for metric in ("max_to_mean", "queues_min")
                    )
                    mean = topics * queues / members
                    row.append(f"{whole(ratio)}, {whole(least, scale=mean)}")
            row.append(f"{-(-queues // members) * members / queues:.2f}")
            rows.append(row)
    head = [f"{STRATEGIES[s]}, {t} topics" for s in ("averagely", RING) for t in (1, 10, 100)]
    return table(["each topic has", *head, "⌈q/m⌉·m/q"], rows)


def _middle(metric: str, at: Mapping[str, object]) -> str:
    """The median, and the range of the middle 90 %."""
    points = dict(curve("skew-shapes", metric, **at))
    return f"{points[0.5]:g} ({points[0.05]:g}–{points[0.95]:g})"


def _percentiles(metric: str, value: float, at: Mapping[str, object]) -> str:
    """The percentiles of a figure, from … to: many sets have the same whole number."""
    given = value + 0.006 if metric == "queues_sigma" else value  # published: rounded
    below, up_to = share_up_to("skew-shapes", metric, given, **at)
    if metric == "queues_sigma":
        below, _ = share_up_to("skew-shapes", metric, value - 0.006, **at)
    return f"{below * 100:.0f}–{up_to * 100:.0f}"


SECTIONS = {
    "even strategies": even_text,
    "leavers": leavers_text,
    "restarts": restarts_text,
    "ids": ids_text,
    "ring": ring_text,
    "names": names_text,
    "known": known_text,
    "nodes": nodes_text,
    "topics": topics_text,
}

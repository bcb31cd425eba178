"""The tables of docs/studies, from the data that are shipped: no run and no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from docs.generate.study_data import Datum, curve, one, share_up_to

CASES = ((8, 3), (24, 5), (24, 7), (64, 10), (8, 12))  # of the table that was known before
KNOWN_RING = {  # its figures for one set of ids: fewest, most, sigma, moves when the last leaves
    (8, 3): (2, 3, None, 3),
    (24, 5): (2, 8, 2.71, 8),
    (24, 7): (1, 8, 2.56, 1),
    (64, 10): (2, 14, 4.34, 4),
    (8, 12): (0, 2, None, None),
}
STRATEGIES = {
    "averagely": "AVG",
    "by_circle": "CIRCLE",
    "consistent_hash": "CHASH",
    "averagely_auto(4.9.6)": "AVG_AUTO",
}
RING = "consistent_hash"


# Skew --------------------------------------------------------------------------------------


def even_text() -> str:
    """AVG and CIRCLE, which have one value whatever the ids are; a join depends on the order."""
    rows = []
    for queues, members in CASES:
        row = [f"{queues} queues, {members} members"]
        for strategy in ("averagely", "by_circle"):
            at = {"queues": queues, "members": members, "strategy": strategy}
            least, most, leave, necessary = (
                _same(one("skew-even", metric, **at))
                for metric in ("queues_min", "queues_max", "moves_leave", "necessary_leave")
            )
            join = one("skew-even", "moves_join", **at)
            row.append(f"{least}/{most}")
            row.append(f"{leave} ({necessary})")
            row.append(f"{join['smallest']:g}–{join['largest']:g}, mean {join['mean']:.1f}")
        rows.append(row)
    head = ["", *(f"{s} {what}" for s in ("AVG", "CIRCLE") for what in EVEN_COLUMNS)]
    return _table(head, rows)


EVEN_COLUMNS = ("min/max", "last leaves (has to)", "one joins")


def ring_text() -> str:
    """CHASH: the distribution over 10,000 sets, and where the known figures lie in it."""
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
        row.append(f"{sigma['mean']:.2f} ± {_half(sigma):.2f}")
        row.append(f"{leave['mean']:.1f} ± {_half(leave):.1f}")
        row.append(f"{idle['mean']:.2f}")
        rows.append(row)
    head = ["CHASH, 10 virtual nodes", "fewest", "most", "mean σ", "mean moves, last leaves"]
    return _table([*head, "idle members"], rows)


def known_text() -> str:
    """Where one set of ids, which was all that was known, lies among 10,000."""
    rows = []
    for shape, known in KNOWN_RING.items():
        at = {"queues": shape[0], "members": shape[1]}
        row = [f"{shape[0]} queues, {shape[1]} members"]
        metrics = ("queues_min", "queues_max", "queues_sigma", "moves_leave")
        for metric, value in zip(metrics, known, strict=True):
            row.append("" if value is None else f"{value:g}: {_percentiles(metric, value, at)}")
        rows.append(row)
    return _table(["known: percentile", "fewest", "most", "σ", "moves, last leaves"], rows)


def nodes_text() -> str:
    """What more virtual nodes do."""
    rows = []
    for nodes in (1, 10, 100, 1_000):
        row = [f"{nodes:,}"]
        for members in (5, 10):
            at = {"virtual_nodes": nodes, "members": members}
            sigma, most = (one("skew-nodes", m, **at) for m in ("queues_sigma", "queues_max"))
            ratio = one("skew-nodes", "max_to_mean", **at)
            row += [
                f"{sigma['mean']:.2f} ± {_half(sigma):.2f}",
                f"{most['median']:g} ({most['p99']:g})",
                f"{ratio['mean']:.2f}",
            ]
        rows.append(row)
    columns = ("σ", "most: median (99 %)", "most / mean")
    head = [f"{m} members: {column}" for m in (5, 10) for column in columns]
    return _table(["virtual nodes", *head], rows)


def ids_text() -> str:
    """Formats of ids: evenness of the ring, and what a rolling restart moves."""
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
        sigma = one("skew-ids", "queues_sigma", ids=ids, strategy=RING)
        row = [text, f"{sigma['mean']:.2f} ± {_half(sigma):.2f}"]
        for strategy in ("averagely", "by_circle", RING):
            moves = one("skew-ids", "moves_restart_per_queue", ids=ids, strategy=strategy)
            row.append(f"{moves['mean']:.2f} ± {_half(moves):.2f}")
        rows.append(row)
    head = [f"{STRATEGIES[s]}: moves a queue" for s in ("averagely", "by_circle", RING)]
    return _table(["ids", "CHASH: mean σ", *head], rows)


def topics_text() -> str:
    """Many small topics: what the first member carries."""
    rows = []
    for topics in (1, 10, 50, 100):
        row = [f"{topics} × 4"]
        for members in (3, 6):
            for strategy in ("averagely", RING):
                at = {"topics": topics, "members": members, "strategy": strategy}
                first, ratio = (
                    one("skew-topics", m, **at) for m in ("first_queues", "max_to_mean")
                )
                least = one("skew-topics", "queues_min", **at)
                most = f"{first['mean']:.0f}, fewest {least['mean']:.0f}"
                row.append(f"{most}, most/mean {ratio['mean']:.2f}")
        rows.append(row)
    head = [f"{m} members, {STRATEGIES[s]}" for m in (3, 6) for s in ("averagely", RING)]
    return _table(["topics × queues", *head], rows)


# Idle members ------------------------------------------------------------------------------


def idle_shapes_text() -> str:
    """The share of members that idle while one broker is read-only."""
    members = (2, 3, 4, 6, 8, 12, 16)
    rows = []
    for brokers in (2, 3, 4, 6):
        for strategy in ("averagely", "by_circle", RING):
            row = [f"{brokers} × 4", STRATEGIES[strategy]]
            for count in members:
                at = {"brokers": brokers, "queues": 4, "members": count, "strategy": strategy}
                share = one("idle-shapes", "read_only_idle_share", **at)
                row.append(f"{share['mean']:.0%}" + _plus_minus_share(share))
            rows.append(row)
    return _table(["brokers × queues", "", *(f"{count} members" for count in members)], rows)


def idle_runs_text() -> str:
    """What virtual clusters showed."""
    rows = []
    for brokers in (2, 4):
        for members in (3, 6, 8):
            for strategy, name in STRATEGIES.items():
                at = {"brokers": brokers, "members": members, "strategy": strategy}
                row = [f"{brokers} × 4 / {members}", name]
                for backlog in ("false", "true"):
                    idle = one("idle-runs", "no_load_members", backlog=backlog, **at)
                    row.append(_range(idle))
                without = {**at, "backlog": "false"}
                metrics = ("no_load_s", "settle_s", "moved_queues")
                row += [_spread(one("idle-runs", metric, **without)) for metric in metrics]
                necessary = one("idle-runs", "necessary_moves", **without)
                row[-1] += f" ({_range(necessary)})"
                rows.append(row)
    head = ["brokers × queues / members", "", "idle at once", "with a backlog", "idle, s"]
    return _table([*head, "settles in, s", "moved (had to)"], rows)


# Penalties ---------------------------------------------------------------------------------

AVOIDS = {
    "never": "never avoids",
    "4.9": "4.9",
    "5.1.4": "5.1.4",
    "5.2": "5.2",
    "prose": "articles",
}


def slow_text() -> str:
    """A broker that is slow for 10 s and well for 20 s, by turns."""
    return _penalties(
        "slow ms",
        [(f"{ms:,}", {"slow_ms": ms, "well_s": 20}) for ms in SLOW_MS],
    )


SLOW_MS = (300, 540, 600, 900, 1_100, 1_700, 1_900, 2_900, 3_500)


def flapping_text() -> str:
    """How long it is well between."""
    cases = [
        (f"{ms:,} ms, well for {well} s", {"slow_ms": ms, "well_s": well})
        for ms in (600, 1_100)
        for well in (5, 20, 60)
    ]
    return _penalties("ill", cases)


def _penalties(title: str, cases: Iterable[tuple[str, Mapping[str, object]]]) -> str:
    names = ("never", "4.9", "5.1.4", "prose")
    rows = []
    for text, at in cases:
        row = [text]
        for avoids in names:
            mean_ms, well, failed = (
                one("penalty-slow", metric, avoids=avoids, **at)
                for metric in ("send_ms_mean", "broker_share_well", "failed_sends")
            )
            lost = f", {failed['mean']:.0f} failed" if failed["mean"] else ""
            sure = f" ± {_half(mean_ms):.0f}" if _half(mean_ms) >= 0.5 else ""
            row.append(f"{mean_ms['mean']:.0f}{sure} ms, {well['mean']:.0%}{lost}")
        rows.append(row)
    return _table([title, *(AVOIDS[name] for name in names)], rows)


def failing_text() -> str:
    """One failure of 10 s, then 700 s in which it is well."""
    rows = []
    for fault in ("cut", "busy"):
        for avoids, name in AVOIDS.items():
            at = {"fault": fault, "avoids": avoids}
            ill, well, back, failed, retried = (
                one("penalty-failing", metric, **at)
                for metric in (
                    *("broker_share_ill", "broker_share_well", "avoided_after_s"),
                    *("failed_sends", "retried_sends"),
                )
            )
            rows.append(
                [
                    {"cut": "connections break", "busy": "answers are errors"}[fault],
                    name,
                    f"{ill['mean']:.1%}",
                    f"{well['mean']:.1%}",
                    _spread(back),
                    _spread(failed),
                    _spread(retried),
                ]
            )
    head = ["for 10 s", "", "share while ill", "share in the 700 s after"]
    return _table([*head, "back after, s", "failed sends", "retried sends"], rows)


SECTIONS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "skew": {
        "even strategies": even_text,
        "ring": ring_text,
        "known": known_text,
        "nodes": nodes_text,
        "ids": ids_text,
        "topics": topics_text,
    },
    "idle": {"shapes": idle_shapes_text, "runs": idle_runs_text},
    "penalties": {"slow": slow_text, "flapping": flapping_text, "failing": failing_text},
}


# Parts -------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _same(datum: Datum) -> str:
    assert datum["smallest"] == datum["largest"], f"{datum.metric} varies at {datum.at}"
    return f"{datum['smallest']:g}"


def _half(datum: Datum) -> float:
    return datum["high_95"] - datum["mean"]


def _plus_minus_share(datum: Datum) -> str:
    half = _half(datum)
    return f" ± {half:.0%}" if half > 0 else ""


def _range(datum: Datum) -> str:
    least, most = datum["smallest"], datum["largest"]
    return f"{least:g}" if least == most else f"{least:g}–{most:g}"


def _spread(datum: Datum) -> str:
    """The mean, and the range where runs differ visibly."""
    shown = [_figure(datum[column]) for column in ("mean", "smallest", "largest")]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]}–{shown[2]})"


def _figure(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _middle(metric: str, at: Mapping[str, object]) -> str:
    """The median, and where nine of ten lie."""
    points = dict(curve("skew-shapes", metric, **at))
    return f"{points[0.5]:g} ({points[0.05]:g}–{points[0.95]:g})"


def _percentiles(metric: str, value: float, at: Mapping[str, object]) -> str:
    """Figures of one set are whole numbers that many sets share: from … to."""
    given = value + 0.006 if metric == "queues_sigma" else value  # it was published rounded
    below, up_to = share_up_to("skew-shapes", metric, given, **at)
    if metric == "queues_sigma":
        below, _ = share_up_to("skew-shapes", metric, value - 0.006, **at)
    return f"{below * 100:.0f}–{up_to * 100:.0f}"

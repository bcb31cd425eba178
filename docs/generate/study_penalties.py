"""The tables of docs/studies/penalties.md."""

from __future__ import annotations

from statistics import fmean, stdev

from docs.generate.penalty_formula import share_drawn, share_of_spells
from docs.generate.study_data import Pool, one, pooled
from docs.generate.study_parts import of_range, percent, spread, table
from rocketmq_emulator.pipeline.studies.uncertainty import of_mean

AVOIDS = {
    "never": "never avoids",
    "4.9": "4.9",
    "5.1.4": "5.1.4",
    "5.2": "5.2",
    "prose": "articles",
}
PENALTY_S = {"4.9": 30, "5.1.4": 2}  # of 600 ms, the only latency of these runs
SLOW_S = 0.6
ILL_S, WELL_S = (5, 10, 20), (5, 10, 15, 20, 25, 30, 40, 60)
FLAPS = 12  # of penalty-spells
DRAWN_WELL_S = (5, 10, 20, 30, 60)
SLOW_MS = (540, 600, 1_100, 1_700, 1_900, 2_900, 3_500)


def spells_text() -> str:
    """The broker's share while it is well, with equal spells, beside the computed share."""
    rows, widest = [], 0.0
    for avoids in ("4.9", "5.1.4"):
        for ill_s in ILL_S:
            row = [AVOIDS[avoids], f"{ill_s} s"]
            for well_s in WELL_S:
                at = {"avoids": avoids, "ill_s": ill_s, "well_s": well_s}
                found = pooled("penalty-spells", "broker_share_well", **at)
                widest = max(widest, found.most - found.least)
                row.append(f"{found.mean:.0%} ({computed_alike(avoids, ill_s, well_s):.0%})")
            rows.append(row)
    found_text = table(["", "ill for", *(f"well for {well_s} s" for well_s in WELL_S)], rows)
    return (
        f"{found_text}\n\nMeans of three seeds, which differ by {widest * 100:.0f} points at most."
    )


def computed_alike(avoids: str, ill_s: float, well_s: float) -> float:
    """The computed share for the runs of the first table."""
    return share_of_spells([(ill_s, well_s)] * FLAPS, PENALTY_S[avoids], SLOW_S)


def drawn_text() -> str:
    """The share with random spells of these mean lengths, ill for 10 s on average."""
    rows = []
    for avoids in ("4.9", "5.1.4"):
        row = [AVOIDS[avoids]]
        for well_s in DRAWN_WELL_S:
            found = pooled("penalty-drawn", "broker_share_well", avoids=avoids, well_s=well_s)
            computed = share_drawn(10, well_s, PENALTY_S[avoids], SLOW_S)
            row.append(f"{percent(found)}; {computed * 100:.0f} %")
        rows.append(row)
    return table(["", *(f"well for {well_s} s" for well_s in DRAWN_WELL_S)], rows)


def slow_text() -> str:
    """By latency: the mean send relative to that without avoidance; the share while well."""
    rows = []
    for slow_ms in SLOW_MS:
        without = pooled("penalty-slow", "send_ms_mean", avoids="never", slow_ms=slow_ms)
        row = [f"{slow_ms:,}", f"{spread(without)} ms{_failed('never', slow_ms)}"]
        for avoids in ("4.9", "5.1.4", "prose"):
            taken = paired({"avoids": avoids, "slow_ms": slow_ms}, {"avoids": "never"})
            well = pooled("penalty-slow", "broker_share_well", avoids=avoids, slow_ms=slow_ms)
            row.append(f"{percent(taken)}; {percent(well)}{_failed(avoids, slow_ms)}")
        rows.append(row)
    return table(["slow ms", *(AVOIDS[name] for name in ("never", "4.9", "5.1.4", "prose"))], rows)


def _failed(avoids: str, slow_ms: int) -> str:
    failed = pooled("penalty-slow", "failed_sends", avoids=avoids, slow_ms=slow_ms)
    return f"; {failed.mean:.0f} failed" if failed.most else ""


def paired(at: dict[str, object], beside: dict[str, object]) -> Pool:
    """The mean send at *at* relative to that at *beside*, all other values being equal.

    Both have the same spells, so the ratios are computed for each drawing of spells.
    """
    ratios = []
    for spells in SPELLS:
        here, there = (
            one("penalty-slow", "send_ms_mean", spells=spells, **{**at, **where})["mean"]
            for where in ({}, beside)
        )
        ratios.append(here / there)
    mean = fmean(ratios)
    high = of_mean(mean, stdev(ratios), len(ratios)).high
    assert high is not None
    return Pool(len(ratios), mean, high - mean, min(ratios), max(ratios))


SPELLS = range(1, 6)  # of penalty-slow


def around_text() -> str:
    """Other clusters: the share while the broker is well, relative to the fair share."""
    rows = []
    for avoids in ("4.9", "5.1.4"):
        for brokers in (2, 4):
            row = [AVOIDS[avoids], f"{brokers}"]
            for name, values in AROUND.items():
                for value in values:
                    at = {"avoids": avoids, "brokers": brokers, name: value}
                    found = pooled("penalty-around", "broker_share_well", **at)
                    fair = Pool(found.runs, *(brokers * each for each in found[1:]))
                    row.append(percent(fair))
            rows.append(row)
    head = ["2 sends/s", "10 sends/s", "the first is ill", "the second is ill"]
    return table(["", "brokers", *head], rows)


AROUND = {"rate": (2, 10), "broker": ("broker-a", "broker-b")}


def failing_text() -> str:
    """Results of one failure of the broker, followed by 700 s in which it is well."""
    rows = []
    for fault, text in FAULTS.items():
        for avoids, name in AVOIDS.items():
            row = [text, name]
            for ill_s in FAILED_S:
                at = {"fault": fault, "avoids": avoids, "ill_s": ill_s}
                back = pooled("penalty-failing", "avoided_after_s", **at)
                well = pooled("penalty-failing", "broker_share_well", **at)
                row.append(f"{spread(back) if well.most else 'never'}, {well.mean:.0%}")
            every = {"fault": fault, "avoids": avoids}
            row += [
                of_range(pooled("penalty-failing", metric, **every))
                for metric in ("failed_sends", "retried_sends")
            ]
            rows.append(row)
    head = [f"after {ill_s} s" for ill_s in FAILED_S]
    return table(["", "", *head, "failed sends", "retried sends"], rows)


FAULTS = {"cut": "connections break", "busy": "answers are errors"}
FAILED_S = (4, 10, 25)


SECTIONS = {
    "spells": spells_text,
    "drawn": drawn_text,
    "slow": slow_text,
    "around": around_text,
    "failing": failing_text,
}

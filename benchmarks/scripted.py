"""The cost of scenarios: virtual worlds with load, weather, checkers, reports, the plugin."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.alone import run_module
from benchmarks.side_by_side import Figures, Plan

RATES = (0, 10, 100, 1_000)  # messages per second


def steps(plan: Plan) -> dict[str, Callable[[], Figures]]:
    """The measurements, in order; the titles are for the progress bar."""
    return {
        "virtual time with a load": _virtual,
        "weather, 10 messages a second": lambda: _weather(10, plan.weather_seeds // 2),
        "… by one job": lambda: _weather(10, plan.weather_seeds, 1),
        "… by two jobs": lambda: _weather(10, plan.weather_seeds, 2),
        "weather, 100 messages a second": lambda: _weather(100, plan.weather_seeds // 4),
        "checkers": lambda: _judging(plan.facts),
        "a report": lambda: _report(plan.facts),
        "the pytest plugin": _plugin,
        "a sweep on Spark": lambda: _sweep(plan.weather_seeds // 2),
        "journals to tables, on Spark": lambda: _tables(plan.facts // 50),
        "a topic into Spark": lambda: _source(plan.backlog_messages),
    }


def two_jobs_share(figures: Figures) -> Figures:
    """The rate of two jobs divided by the rate of one."""
    return {"weather_10_share": figures["weather_10_2"] / figures["weather_10_1"]}


def _virtual() -> Figures:
    found = run_module("virtual_load", *RATES)
    return {f"virtual_{rate}": found[f"{rate:g}"] for rate in RATES}


def _weather(rate: int, seeds: int, jobs: int = 0) -> Figures:
    found = run_module("weather_seeds", rate, seeds, jobs)
    return {f"weather_{rate}_{jobs}": found["seeds_per_s"]}


def _judging(facts: int) -> Figures:
    found = run_module("judging", facts)
    names = ("read_per_s", "judged_per_s", "read_and_judged_per_s")
    return {name: found[name] for name in names}


def _report(facts: int) -> Figures:
    found = run_module("report", facts)
    millions = facts / 1_000_000
    return {
        "report_s": (found["read_judge_and_fold_s"] + found["write_s"]) / millions,
        "drawn_s": (found["read_and_fold_s"] + found["write_s"]) / millions,
        "report_mb": found["page_mb"] / millions,
    }


def _tables(facts: int) -> Figures:
    """Tables from *facts* facts, and from 10 and 100 times as many."""
    found = run_module("tables", facts)
    rates = {f"tables_{factor}": found[f"x{factor}_facts_per_s"] for factor in (1, 10, 100)}
    return {"spark_start_s": found["spark_start_s"], **rates}


def _source(messages: int) -> Figures:
    """Rates for bodies of 100 bytes; ``benchmarks.source`` prints all."""
    found = run_module("source", "--messages", messages, "--json", "-")
    asked = {"spark": "Spark job, all columns", "java": "Java client"}
    return {
        f"source_{side}_{key}": found[side]["100"][name]
        for side in ("ours", "real")
        for key, name in asked.items()
    }


def _sweep(rows: int) -> Figures:
    return {f"sweep_{name}": value for name, value in run_module("sweep", rows).items()}


def _plugin() -> Figures:
    return {
        f"plugin_{name}_ms": took["median"]
        for name, took in run_module("tests_with_a_cluster").items()
    }

"""The finished studies of docs/studies: sweeps, their data in small, their tables and pictures.

    python -m docs.generate.studies                  all of them
    python -m docs.generate.studies skew --to DIR    one; folders of sweeps and HTML pages in DIR
    python -m docs.generate.studies --tables         only the pages, from the data that are shipped

A sweep that was finished in DIR is not run again.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docs.generate import study_tables
from docs.generate.sections import DOCS, with_section
from docs.generate.study_data import COMBINATIONS, CURVES, write_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.studies.study import Study

PAGES = DOCS / "studies"
FOLDER = Path.home() / ".cache" / "rocketmq-emulator" / "studies"
LOOK_EVERY_S = 15.0
MORE = 10  # what so many times as much would take is printed
ALL = "averagely,by_circle,consistent_hash"


class FinishedSweep(NamedTuple):
    """``rmqemu sweep`` with these *words*, and what of it is shipped.

    *curves* are metrics of which whole distributions are shipped, not only some quantiles.
    """

    words: str
    metrics: tuple[str, ...]
    curves: tuple[str, ...] = ()


class Drawing(NamedTuple):
    """A plot of a sweep's page, by its place there, after some choices; the file's size in px."""

    sweep: str
    plot: str
    metric: str
    choices: Mapping[str, str]  # ids of the page's fields: what is chosen
    width: int = 900
    height: int = 380


class FinishedStudy(NamedTuple):
    """A page of docs/studies, with its sweeps and its picture."""

    sweeps: Mapping[str, FinishedSweep]
    drawing: Drawing


SHARES = ("queues_max", "queues_min", "queues_sigma", "max_to_mean", "idle_members")
MOVES = ("moves_leave", "necessary_leave", "moves_join", "necessary_join")
RUN_METRICS = (
    *("no_load_members", "idle_members", "no_load_s", "settle_s", "moved_queues"),
    *("necessary_moves", "unowned_queue_s"),
)
SEND_METRICS = (
    *("send_ms_mean", "send_ms_p99", "broker_share_ill", "broker_share_well", "avoided_after_s"),
    *("failed_sends", "retried_sends"),
)
STUDIES: Mapping[str, FinishedStudy] = {
    "skew": FinishedStudy(
        {
            "skew-even": FinishedSweep(
                f"allocation --seeds 1..1000 --vary strategy={ALL} --vary queues=8,24,64 "
                "--vary members=3,5,7,10,12",
                (*SHARES, *MOVES),
            ),
            "skew-shapes": FinishedSweep(
                "allocation --seeds 1..10000 --vary queues=8,24,64 --vary members=3,5,7,10,12 "
                "--set strategy=consistent_hash",
                (*SHARES, *MOVES, "max_to_min"),
                curves=("queues_max", "queues_min", "queues_sigma", "moves_leave"),
            ),
            "skew-nodes": FinishedSweep(
                "allocation --seeds 1..100 --vary virtual_nodes=1,10,100,1000 "
                "--vary members=5,10 --set strategy=consistent_hash --set queues=64",
                SHARES,
            ),
            "skew-ids": FinishedSweep(
                f"allocation --seeds 1..100 --vary strategy={ALL} "
                "--vary ids=ip_pid,ip_pid_nanos,any_ip_pid_nanos,container,pod_name,uuid "
                "--set queues=24 --set members=5 --set restart=true",
                ("queues_sigma", "queues_max", "moves_restart_per_queue"),
            ),
            "skew-topics": FinishedSweep(
                f"allocation --seeds 1..20 --vary strategy={ALL} --vary topics=1,10,50,100 "
                "--vary members=3,6 --set queues=4",
                ("first_queues", "queues_max", "queues_min", "max_to_mean"),
            ),
        },
        Drawing("skew-even", "boxes", "queues_max", {"along": "members", "queues": "24"}),
    ),
    "idle": FinishedStudy(
        {
            "idle-shapes": FinishedSweep(
                f"allocation --seeds 1..100 --vary strategy={ALL} --vary brokers=2,3,4,6 "
                "--vary queues=4,8 --vary members=2,3,4,6,8,12,16",
                ("read_only_idle_members", "read_only_idle_share", "read_only_max_to_mean"),
            ),
            "idle-runs": FinishedSweep(
                f"read_only --seeds 1..25 --vary 'strategy={ALL},averagely_auto(4.9.6)' "
                "--vary brokers=2,4 --vary members=3,6,8 --vary backlog=false,true "
                "--set leaves=true",
                RUN_METRICS,
            ),
        },
        Drawing(
            "idle-shapes",
            "boxes",
            "read_only_idle_share",
            {"along": "members", "brokers": "4", "queues": "4"},
        ),
    ),
    "penalties": FinishedStudy(
        {
            "penalty-slow": FinishedSweep(
                "a_broker_flaps --seeds 1..20 --vary avoids=never,4.9,5.1.4,prose "
                "--vary slow_ms=300,540,600,900,1100,1700,1900,2900,3500 --vary well_s=5,20,60",
                SEND_METRICS,
            ),
            "penalty-failing": FinishedSweep(
                "a_broker_flaps --seeds 1..25 --vary avoids=never,4.9,5.1.4,5.2,prose "
                "--vary fault=cut,busy --set flaps=1 --set well_s=700",
                SEND_METRICS,
            ),
        },
        Drawing(
            "penalty-slow", "boxes", "broker_share_well", {"along": "slow_ms", "well_s": "20"}
        ),
    ),
}


def main(words: Sequence[str]) -> None:
    """What the opening paragraph says."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate.studies")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument("--to", type=Path, default=FOLDER)
    parser.add_argument("--tables", action="store_true", help="only the tables of the pages")
    parser.add_argument("--pictures", action="store_true", help="the pictures, too (Chromium)")
    given = parser.parse_args(words)
    if unknown := [name for name in given.names if name not in STUDIES]:
        parser.error(f"there is no study {unknown[0]!r}: there are {', '.join(STUDIES)}")
    names = given.names or list(STUDIES)
    if not given.tables:
        run_studies(names, given.to)
    if given.pictures:
        from docs.generate.study_pictures import draw  # noqa: PLC0415  # the tests' own browser

        for name in names:
            draw(STUDIES[name].drawing, given.to, PAGES / f"{name}.svg")
    for name in names:
        page = PAGES / f"{name}.md"
        page.write_text(with_tables(page.read_text(), name))


def with_tables(page: str, name: str) -> str:
    """The page of a study with its tables made anew from the data that are shipped."""
    for section, text in study_tables.SECTIONS[name].items():
        page = with_section(page, section, text())
    return page


def run_studies(names: Sequence[str], to: Path) -> None:
    """Sweep, study, keep the data; says what each took, and what ten times as much would."""
    from pipeline.session import spark_session  # noqa: PLC0415  # an extra

    began_s = time.monotonic()
    spark = spark_session("studies")
    _say(f"Spark started in {time.monotonic() - began_s:.0f} s")
    for name in names:
        began_s, more_s = time.monotonic(), 0.0
        cores = spark.sparkContext.defaultParallelism
        for key, sweep in STUDIES[name].sweeps.items():
            sweep_s = _swept(spark, to / key, sweep)
            made = _studied(spark, to / key, sweep)
            write_data(made, key, sweep.curves)
            more_s += sweep_s or sum(cell.took_s for cell in made.cells) / cores
        took_s = time.monotonic() - began_s
        _say(
            f"{name}: {took_s / 60:.1f} min on {cores} cores; {MORE} times as many seeds would "
            f"take about {(took_s + (MORE - 1) * more_s) / 60:.0f} min"
        )


def _swept(spark: SparkSession, folder: Path, sweep: FinishedSweep) -> float:
    """Seconds that all its runs would have taken; 0 if all were there."""
    from pipeline.sweep.driving import SparkSweep  # noqa: PLC0415
    from pipeline.sweep.folder import SweepFolder, stored_sweep  # noqa: PLC0415
    from pipeline.sweep.grid import SweepAsked, grid_of, variation  # noqa: PLC0415

    words = shlex.split(sweep.words)
    options = list(zip(words[1::2], words[2::2], strict=True))
    (seeds,) = [value for option, value in options if option == "--seeds"]
    first, _, last = seeds.partition("..")
    grid = grid_of(
        SweepAsked(
            scenario=words[0],
            settings={
                name: value
                for option, text in options
                if option == "--set"
                for name, _, value in [text.partition("=")]
            },
            vary=dict(variation(text) for option, text in options if option == "--vary"),
            first_seed=int(first),
            last_seed=int(last),
        )
    )
    command = ["rmqemu", "sweep", *words, "--to", folder.name]
    began_s = shown_s = time.monotonic()
    with SweepFolder(folder, stored_sweep(grid, command)) as target:
        work = SparkSweep(lambda: spark, grid, target)
        found = work.done
        for _ in work.rows():
            if time.monotonic() - shown_s > LOOK_EVERY_S:
                shown_s = time.monotonic()
                _say(f"  {folder.name}: {work.done:,} of {grid.row_count:,} runs")
    took_s = time.monotonic() - began_s
    made = work.done - found
    _say(f"  {folder.name}: {made:,} runs made in {took_s:.0f} s, {found:,} were there")
    return took_s * work.done / made if made else 0.0


def _studied(spark: SparkSession, folder: Path, sweep: FinishedSweep) -> Study:
    """The study of what is shown of it; its page stands in the folder."""
    from pipeline.studies.page import write_study_page  # noqa: PLC0415
    from pipeline.studies.reading import study_of  # noqa: PLC0415

    made = study_of(spark, folder, sweep.metrics)
    (folder / "study.html").write_text(write_study_page(made), encoding="utf-8")
    return made


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def shipped() -> Iterator[Path]:
    """The files of data that all studies come to."""
    for study in STUDIES.values():
        for key, sweep in study.sweeps.items():
            yield COMBINATIONS / f"{key}.csv"
            if sweep.curves:
                yield CURVES / f"{key}-curves.csv"


if __name__ == "__main__":
    main(sys.argv[1:])

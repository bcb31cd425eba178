"""The finished studies of docs/studies: sweeps, their shipped data, their tables and pictures.

    python -m docs.generate.studies                  all studies
    python -m docs.generate.studies skew --to DIR    one; folders of sweeps and HTML pages in DIR
    python -m docs.generate.studies --tables         tables and pictures, from the shipped data

A sweep that is finished in DIR is not run again.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docs.generate import study_pictures, study_tables
from docs.generate.sections import DOCS, with_section
from docs.generate.study_data import COMBINATIONS, CURVES, write_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketmq_emulator.pipeline.studies.study import Study

PAGES = DOCS / "studies"
FOLDER = Path.home() / ".cache" / "rocketmq-emulator" / "studies"
LOOK_EVERY_S = 15.0
MORE = 10  # the command estimates the time of this many times as many seeds
ALL = "averagely,by_circle,consistent_hash"


class FinishedSweep(NamedTuple):
    """``rmqemu sweep`` with these *words*.

    *curves* are the metrics whose whole distributions are shipped; of others only some quantiles.
    """

    words: str
    metrics: tuple[str, ...]
    curves: tuple[str, ...] = ()


SHARES = ("queues_max", "queues_min", "queues_sigma", "max_to_mean", "idle_members")
MOVES = ("moves_leave", "necessary_leave", "moves_join", "necessary_join")
OVER_BROKERS = ("read_only_mean_share", "read_only_least_share", "read_only_most_share")
RUN_METRICS = ("no_load_s", "settle_s")
SEND_METRICS = ("send_ms_mean", "broker_share_ill", "broker_share_well", "failed_sends")
MODE_METRICS = (
    "write_pause_s",
    "read_pause_s.archive",
    "failed_sends",
    "unsafe_sends",
    "lost_with_masters",
    "lost_with_power",
    "only_at_slaves",
    "duplicates.billing",
)
DEATHS = "--vary dies_s=75,81,87,93,99 --vary fault=kill,hang,power_off,cut_off,link"
STUDIES: Mapping[str, Mapping[str, FinishedSweep]] = {  # by page: sweeps by name
    "skew": {
        "skew-even": FinishedSweep(
            f"allocation --seeds 1..300 --vary strategy={ALL} "
            "--vary ids=ip_pid_nanos,any_ip_pid_nanos --vary queues=8,24,64 "
            "--vary members=3,5,7,10,12 --set leaver=any --set topic=any",
            ("queues_max", "queues_min", *MOVES),
        ),
        "skew-leavers": FinishedSweep(
            f"allocation --seeds 1..100 --vary strategy={ALL} "
            "--vary leaver=first,middle,last,any --vary members=3,5,10,20 "
            "--vary queues=24,60,240 --set topic=any",
            ("moves_leave", "necessary_leave"),
        ),
        "skew-shapes": FinishedSweep(
            "allocation --seeds 1..10000 --vary queues=8,24,64 --vary members=3,5,7,10,12 "
            "--set strategy=consistent_hash --set topic=any",
            (*SHARES, *MOVES, "max_to_min"),
            curves=("queues_max", "queues_min", "queues_sigma", "moves_leave"),
        ),
        "skew-topic-names": FinishedSweep(
            "allocation --seeds 1..300 "
            "--vary topic=orders,payments,invoices,shipments,clicks,stock,users,audit,any "
            "--vary queues=8,24,64 --vary members=3,5,10 --set strategy=consistent_hash",
            ("queues_sigma", "queues_max"),
        ),
        "skew-nodes": FinishedSweep(
            "allocation --seeds 1..200 --vary virtual_nodes=1,10,100,1000 "
            "--vary members=5,10 --vary queues=24,64 --set strategy=consistent_hash "
            "--set topic=any",
            SHARES,
        ),
        "skew-ids": FinishedSweep(
            f"allocation --seeds 1..100 --vary strategy={ALL} "
            "--vary ids=ip_pid,ip_pid_nanos,any_ip_pid_nanos,container,pod_name,uuid "
            "--vary surge=false,true --set queues=24 --set members=5 --set topic=any "
            "--set restart=true",
            ("queues_sigma", "moves_restart_per_queue"),
        ),
        "skew-restarts": FinishedSweep(
            f"allocation --seeds 1..50 --vary strategy={ALL} --vary surge=false,true "
            "--vary members=2,3,5,10,20 --vary queues=24,60,240 --set ids=any_ip_pid_nanos "
            "--set topic=any --set restart=true",
            ("moves_restart_per_queue",),
        ),
        "skew-topics": FinishedSweep(
            f"allocation --seeds 1..20 --vary strategy={ALL} --vary topics=1,10,50,100 "
            "--vary queues=4,8,16 --vary members=3,5,6 --set topic=any",
            ("first_queues", "queues_min", "max_to_mean"),
        ),
    },
    "idle": {
        "idle-shapes": FinishedSweep(
            f"allocation --seeds 1..100 --vary strategy={ALL} --vary brokers=2,3,4,5,6 "
            "--vary queues=4,8 --vary members=2,3,4,5,6,8,10,12,16 --set topic=any",
            OVER_BROKERS,
        ),
        "idle-brokers": FinishedSweep(
            f"allocation --seeds 1..200 --vary strategy={ALL} "
            "--vary read_only=first,middle,last --vary members=2,3,4,5,6,7,8,9,10,11,12 "
            "--set brokers=3 --set queues=4 --set topic=any",
            ("read_only_idle_members",),
        ),
        "idle-runs": FinishedSweep(
            f"read_only --seeds 1..1 --vary 'strategy={ALL},averagely_auto(4.9.6)' "
            "--vary members=4,8 --vary read_only=first,middle,last "
            "--vary leaver=first,middle,last --vary order_of_ids=started,reversed "
            "--set brokers=3 --set leaves=true",
            RUN_METRICS,
        ),
        "idle-backlog": FinishedSweep(
            f"read_only --seeds 1..1 --vary 'strategy={ALL},averagely_auto(4.9.6)' "
            "--vary members=4,8 --vary read_only=first,middle,last --set brokers=3 "
            "--set leaves=true --set backlog=true",
            RUN_METRICS,
        ),
    },
    "modes": {
        "modes-4.9.7": FinishedSweep(
            f"a_master_dies --seeds 1..1 --vary mode=async,sync --vary slaves=1,2 {DEATHS} "
            "--set release=4.9.7",
            MODE_METRICS,
        ),
        "modes-5.3.3": FinishedSweep(
            "a_master_dies --seeds 1..1 --vary mode=async,sync,acting,controller,controller_acks "
            f"--vary slaves=1,2 {DEATHS} --set release=5.3.3",
            MODE_METRICS,
        ),
        "modes-behind": FinishedSweep(
            "a_master_dies --seeds 1..1 "
            "--vary mode=async,acting,controller,controller_acks,controller_unclean "
            "--vary fault=kill,power_off --vary dies_s=75,81,87,93,99 --set release=5.3.3 "
            "--set behind_s=30",
            MODE_METRICS,
        ),
    },
    "penalties": {
        "penalty-spells": FinishedSweep(
            "a_broker_flaps --seeds 1..3 --vary avoids=4.9,5.1.4 --vary ill_s=5,10,20 "
            "--vary well_s=5,10,15,20,25,30,40,60 --set flaps=12",
            SEND_METRICS,
        ),
        "penalty-drawn": FinishedSweep(
            "a_broker_flaps --seeds 1..1 --vary avoids=4.9,5.1.4 --vary well_s=5,10,20,30,60 "
            "--vary spells=1..8 --set flaps=12",
            SEND_METRICS,
        ),
        "penalty-slow": FinishedSweep(
            "a_broker_flaps --seeds 1..1 --vary avoids=never,4.9,5.1.4,prose "
            "--vary slow_ms=540,600,1100,1700,1900,2900,3500 --vary spells=1..5 "
            "--set flaps=12",
            SEND_METRICS,
        ),
        "penalty-around": FinishedSweep(
            "a_broker_flaps --seeds 1..1 --vary avoids=4.9,5.1.4 --vary brokers=2,4 "
            "--vary broker=broker-a,broker-b --vary rate=2,10 --vary spells=1..3 "
            "--set flaps=10",
            SEND_METRICS,
        ),
        "penalty-failing": FinishedSweep(
            "a_broker_flaps --seeds 1..2 --vary avoids=never,4.9,5.1.4,5.2,prose "
            "--vary fault=cut,busy --vary ill_s=4,10,25 --set flaps=1 --set well_s=700",
            (*SEND_METRICS, "avoided_after_s", "retried_sends"),
        ),
    },
}


def main(words: Sequence[str]) -> None:
    """Run the studies that the command line names, or make only their tables and pictures."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate.studies")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument("--to", type=Path, default=FOLDER)
    parser.add_argument("--tables", action="store_true", help="only the tables and pictures")
    given = parser.parse_args(words)
    if unknown := [name for name in given.names if name not in STUDIES]:
        parser.error(f"there is no study {unknown[0]!r}: there are {', '.join(STUDIES)}")
    names = given.names or list(STUDIES)
    if not given.tables:
        run_studies(names, given.to)
    for name in names:
        (PAGES / f"{name}.svg").write_text(study_pictures.PICTURES[name]())
        page = PAGES / f"{name}.md"
        page.write_text(with_tables(page.read_text(), name))


def with_tables(page: str, name: str) -> str:
    """*page* of a study with new tables, made from the shipped data."""
    for section, text in study_tables.SECTIONS[name].items():
        page = with_section(page, section, text())
    return page


def run_studies(names: Sequence[str], to: Path) -> None:
    """Run the sweeps and write the data; print the time of each study, and of ``MORE`` as much."""
    from rocketmq_emulator.pipeline.session import spark_session  # noqa: PLC0415  # an extra

    began_s = time.monotonic()
    spark = spark_session("studies")
    _say(f"Spark started in {time.monotonic() - began_s:.0f} s")
    for name in names:
        began_s, more_s = time.monotonic(), 0.0
        cores = spark.sparkContext.defaultParallelism
        for key, sweep in STUDIES[name].items():
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
    """The estimated seconds for all runs of the sweep; 0 if all were finished before."""
    from rocketmq_emulator.pipeline.sweep.driving import SparkSweep  # noqa: PLC0415
    from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep  # noqa: PLC0415
    from rocketmq_emulator.pipeline.sweep.grid import SweepSpec, grid_of, variation  # noqa: PLC0415

    words = shlex.split(sweep.words)
    options = list(zip(words[1::2], words[2::2], strict=True))
    (seeds,) = [value for option, value in options if option == "--seeds"]
    first, _, last = seeds.partition("..")
    grid = grid_of(
        SweepSpec(
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
    command = ["rmqemu", "sweep", *words, "-o", folder.name]
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
    _say(f"  {folder.name}: {made:,} runs made in {took_s:.0f} s, {found:,} finished before")
    return took_s * work.done / made if made else 0.0


def _studied(spark: SparkSession, folder: Path, sweep: FinishedSweep) -> Study:
    """The study of the shown metrics; its page is written to the folder."""
    from rocketmq_emulator.pipeline.studies.page import write_study_page  # noqa: PLC0415
    from rocketmq_emulator.pipeline.studies.study import study_of  # noqa: PLC0415

    made = study_of(spark, folder, sweep.metrics)
    (folder / "study.html").write_text(write_study_page(made), encoding="utf-8")
    return made


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def shipped() -> Iterator[Path]:
    """The paths of the shipped data files of all studies."""
    for study in STUDIES.values():
        for key, sweep in study.items():
            yield COMBINATIONS / f"{key}.csv"
            if sweep.curves:
                yield CURVES / f"{key}-curves.csv"


if __name__ == "__main__":
    main(sys.argv[1:])

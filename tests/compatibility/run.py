"""Runs the programs of all SDKs on a real RocketMQ and on ours, and records what works.

    python -m tests.compatibility.run                       everything (an hour)
    python -m tests.compatibility.run --column ours-5.3.3 --sdk go --feature consume-sql

One cluster runs at a time, with one broker.  ``tests/golden/compatibility.json`` gets the
outcomes; the others keep theirs.  Then ``python -m docs.generate.compatibility``
writes the page.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.clusters import Cluster, running
from rocketmq_emulator.settings.property_names import BROKER
from tests.compatibility.features import TITLES
from tests.compatibility.programs import PROGRAMS
from tests.compatibility.record import COLUMNS, keep, recorded
from tests.sdk.administration import create_group, create_topic

PROGRAM_S_MAX = 1_200.0
WHY_CHARS_MAX = 160
NICENESS = 10

# What the features need and a release does not have by default; and short waits.  A broker of 5.x
# collects op records for transactionOpBatchInterval: if that is longer than transactionTimeOut, it
# asks about transactions that have ended, and an answer COMMIT delivers what was rolled back.
SETTINGS = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "rejectTransactionMessage": "false",
    "recallMessageEnable": "true",
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "3000",
    "transactionOpBatchInterval": "500",
}


def command_of(column: str, settings: Mapping[str, str] = SETTINGS) -> list[str]:
    """Starts the cluster of *column*; without *settings* that ours does not have."""
    _, real, release = COLUMNS[column]
    if real:
        command = ["benchmarks/real_cluster.py", "--version", release, "--brokers", "1"]
        known = settings
    else:
        up = ["-m", "rocketmq_emulator.cli", "up", "--brokers", "1", "--port", "0"]
        command = [*up, "--release", release]
        known = {name: value for name, value in settings.items() if name in BROKER.settings}
    given = [word for name, value in known.items() for word in ("--set", f"{name}={value}")]
    return [sys.executable, *command, *given]


def outcomes_on(
    cluster: Cluster, sdk: str, features: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Runs the program of *sdk* on *cluster*; yields each feature with its outcome.

    Raises ``toolchains.PartMissing`` if the SDK is not here and cannot be fetched.
    """
    with tempfile.TemporaryDirectory() as scratch:
        words, environment = PROGRAMS[sdk].fetched(Path(scratch))
        for feature in features or TITLES:
            create_topic(cluster, f"{sdk}-{feature}", brokers=1)
            create_group(cluster, f"{sdk}-{feature}")
            if feature == "namespace":
                create_topic(cluster, f"tenant%{sdk}-{feature}", brokers=1)
        command = [*words, cluster.namesrv, sdk, *features]
        for line in printed_lines(command, environment, Path(scratch)):
            found = json.loads(line)
            assert found["feature"] in TITLES, f"{sdk} has {found['feature']}, the list does not"
            if found["outcome"] == "works":
                yield found["feature"], "works"
            elif found["outcome"] == "fails":
                yield found["feature"], f"fails: {reason_of(found['why'])}"


def reason_of(text: str) -> str:
    """*text* on one line, without what differs in each run: addresses, times, paths, ids."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"(See|For more information).*", "", text)
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+(:\d+)?", "ADDRESS", text)
    text = re.sub(r"\b\d{8,}\b|\b[0-9A-F]{24,}\b", "N", text)
    text = re.sub(r"\[?\b\d+\]? ?ms\b", "N ms", text)
    return text.strip()[:WHY_CHARS_MAX].strip()


def printed_lines(
    command: Sequence[str], environment: Mapping[str, str], scratch: Path
) -> Iterable[str]:
    """What the program prints, its lines of JSON only; it is killed after ``PROGRAM_S_MAX``."""
    with (
        (scratch / "stderr").open("wb") as errors,
        subprocess.Popen(
            ["nice", "-n", str(NICENESS), *command],
            env=dict(environment),
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        alarm = threading.Timer(PROGRAM_S_MAX, process.kill)
        alarm.start()
        try:
            found = 0
            for line in process.stdout:
                if line.startswith('{"feature"'):
                    found += 1
                    yield line
        finally:
            alarm.cancel()
            process.kill()
    shown = (scratch / "stderr").read_text(errors="replace")[-2_000:]
    assert found, f"{command[0]} printed no outcome; its errors: {shown}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--column", action="append", choices=COLUMNS, help="of the page")
    parser.add_argument("--sdk", action="append", choices=PROGRAMS)
    parser.add_argument("--feature", action="append", choices=TITLES, default=[])
    options = parser.parse_args()
    for column in options.column or COLUMNS:
        command = command_of(column)
        with running(command) as cluster:
            for sdk in options.sdk or PROGRAMS:
                outcomes = {}
                for feature, outcome in outcomes_on(cluster, sdk, options.feature):
                    sys.stderr.write(f"{column} {sdk} {feature}: {outcome}\n")
                    outcomes[feature] = outcome
                record = recorded()
                put = record.add if options.feature else record.replace
                put(sdk, column, outcomes)
                record.commands[column] = " ".join(["python", *command[1:]])
                keep(record)


if __name__ == "__main__":
    main()

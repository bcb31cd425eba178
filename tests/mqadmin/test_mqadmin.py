"""The official mqadmin of 4.9.7 and of 5.3.3 prints the same for our cluster as for a real one.

``RECORD=1`` with the marker ``parity`` overwrites the recording.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import ROOT, running
from tests.mqadmin.differences import DIFFERENCES
from tests.mqadmin.outcomes import by_command, outcomes_of, record, recorded
from tests.mqadmin.tool import AdminTool
from tests.sdk.toolchains import PartMissing

REAL = str(ROOT / "benchmarks" / "real_cluster.py")


@pytest.fixture(params=["4.9.7", "5.3.3"])
def release(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def tool(release: str, tmp_path: Path) -> Iterator[AdminTool]:
    (tmp_path / "files").mkdir()
    try:
        tool = AdminTool(release, tmp_path)
    except PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))
    yield tool
    tool.stop()


@pytest.mark.sdk
def test_mqadmin_prints_for_ours_what_it_prints_for_a_real_cluster(
    release: str, tool: AdminTool, tmp_path: Path
) -> None:
    ours = (
        "-m",
        "rocketmq_emulator.cli",
        "up",
        "--brokers",
        "1",
        "--port",
        "0",
        "--release",
        release,
    )
    with running((sys.executable, *ours)) as cluster:
        found = by_command(outcomes_of(release, cluster, tool, tmp_path / "files"))
    real = recorded(release)
    assert set(found) == set(real)
    explained = {line for line, why in DIFFERENCES.items() if release in why.releases}
    differing = {line for line in real if sorted(found[line]) != sorted(real[line])}
    unexplained = {line: (real[line], found[line]) for line in differing - explained}
    assert unexplained == {}
    assert explained & set(real) - differing == set(), "no longer different"


@pytest.mark.parity
def test_mqadmin_still_prints_for_a_real_cluster_what_was_recorded(
    release: str, tool: AdminTool, tmp_path: Path
) -> None:
    command = (sys.executable, REAL, "--version", release, "--brokers", "1")
    with running(command) as cluster:
        found = by_command(outcomes_of(release, cluster, tool, tmp_path / "files"))
    if os.environ.get("RECORD") == "1":
        record(release, found)
    real = recorded(release)
    assert set(found) == set(real)
    changed = {line for line in real if sorted(found[line]) != sorted(real[line])}
    assert changed == set()

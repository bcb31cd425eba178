"""Every feature of an SDK that the compatibility page shows as working with ours still works.

The columns of real clusters are fixed by the record; ``python -m tests.compatibility.run``
writes all columns again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.clusters import running
from tests.compatibility.programs import PROGRAMS
from tests.compatibility.record import COLUMNS, recorded
from tests.compatibility.run import command_of, outcomes_on
from tests.sdk.toolchains import found_or_skipped


@pytest.mark.parity
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("column", [name for name, column in COLUMNS.items() if not column.real])
@pytest.mark.parametrize("sdk", PROGRAMS)
def test_no_feature_of_an_sdk_is_lost(sdk: str, column: str, tmp_path: Path) -> None:
    found_or_skipped(lambda: PROGRAMS[sdk].fetched(tmp_path))
    with running(command_of(column)) as cluster:
        now = dict(outcomes_on(cluster, sdk))
    assert recorded().lost(sdk, column, now) == []

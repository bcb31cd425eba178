"""``kill -9`` of masters, slaves and controllers under load loses nothing that was promised."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.durability.pair_kills import MODES
from tests.support.paths import ROOT

RUN_S_MAX = 560
KILLS_OF_EACH = 17  # 51 of the three modes


@pytest.mark.timeout(RUN_S_MAX + 20)
@pytest.mark.parametrize(("mode", "release"), list(MODES))
def test_kills_of_a_pair_under_load_lose_nothing_that_was_promised(
    mode, release, tmp_path
) -> None:
    command = [sys.executable, "-m", "tests.durability.pair_kills", mode, release, "1"]
    ended = subprocess.run(
        [*command, str(KILLS_OF_EACH), str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=RUN_S_MAX,
        check=True,
    )
    found = json.loads(ended.stdout)
    assert found["kills"] == KILLS_OF_EACH
    assert found["promised"] > KILLS_OF_EACH * 10
    assert found["missing"] == []

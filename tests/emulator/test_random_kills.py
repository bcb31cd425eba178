"""Whatever dies when: all that was acknowledged is consumed once everybody is back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STORY = HERE / "story_of_random_kills.py"


@pytest.mark.parametrize("seed", range(1, 9))
def test_client_invariant_61_no_acknowledged_message_is_lost_to_kills_at_random_times(
    seed: int,
) -> None:
    done = subprocess.run(
        [sys.executable, STORY, str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=HERE.parent.parent,
        env={"PYTHONPATH": str(HERE.parent.parent)},
    )
    found = json.loads(done.stdout)
    assert found["sent"] > 300
    assert found["lost"] == []
    assert found["bugs"] == []

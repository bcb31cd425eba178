"""Whatever dies when: all that was acknowledged is consumed once everybody is back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STORY = HERE / "story_of_random_kills.py"


def came_through(*arguments: object) -> dict:
    done = subprocess.run(
        [sys.executable, STORY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=HERE.parent.parent,
        env={"PYTHONPATH": str(HERE.parent.parent)},
    )
    found: dict = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("seed", range(1, 9))
def test_client_invariant_61_no_acknowledged_message_is_lost_to_kills_at_random_times(
    seed: int,
) -> None:
    found = came_through(seed)
    assert found["sent"] > 300
    assert found["lost"] == []
    assert found["bugs"] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_client_invariant_61_a_client_that_commits_what_it_pulled_loses_messages(
    seed: int,
) -> None:
    found = came_through(seed, "eager")
    assert found["sent"] > 300
    assert found["lost"]

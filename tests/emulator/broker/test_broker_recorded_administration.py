"""Our answers to administrators equal those of real brokers of both lines.

The steps reset, clone and delete groups, and change settings, so they run on a separate broker.
"""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.emulator.broker.test_broker_recorded_answers import RELEASES, answers_of_ours
from tests.parity.differences import agree
from tests.parity.recording import recorded
from tests.parity.steps import STEPS_OF, titles_of

STEPS = STEPS_OF["administration"]
SETTINGS = ("the settings of a new broker", "the settings")
OF_PROCESSORS = (  # the pools whose threads depend on the number of processors
    *("sendMessage", "pullMessage", "litePullMessage", "queryMessage"),
    *("processReplyMessage", "heartbeat", "endTransaction"),
)
OF_ONE_BROKER = {
    "listenPort",
    "namesrvAddr",
    "storePathRootDir",
    "mappedFileSizeCommitLog",
    *(f"{pool}ThreadPoolNums" for pool in OF_PROCESSORS),
    "traceOn",  # read when the broker starts: a change is ignored, with a warning
}


@pytest.mark.parametrize("release", RELEASES)
async def test_every_answer_to_an_administrator_is_a_real_broker_s(
    release: str, autojump_clock: MockClock
) -> None:
    real, ours = recorded(release, "administration"), await answers_of_ours(release, STEPS)
    assert set(real) == set(ours) == set(titles_of(STEPS))
    for title in SETTINGS:
        real[title]["body"] = _of_both(real[title]["body"], ours[title]["body"])
        ours[title]["body"] = _of_both(ours[title]["body"], ours[title]["body"])
    differing = {t: (real[t], ours[t]) for t in real if not agree(real[t], ours[t])}
    assert differing == {}


def _of_both(settings: dict[str, str], shown: dict[str, str]) -> dict[str, str]:
    """The settings that ours shows, except those of one machine or different on purpose."""
    return {name: settings[name] for name in shown if name not in OF_ONE_BROKER}

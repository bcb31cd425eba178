"""A NameServer that has not registered a broker yet is asked again soon, in virtual time."""

from __future__ import annotations

import itertools

import pytest
import trio
from registration_stage import Stage, on_stage

from rocketmq_emulator.facts import RegistrationRecovered


@pytest.mark.parametrize("up_s", [0.1, 3.3, 12.0, 59.0])
def test_a_broker_that_started_first_registers_within_a_second_once_its_name_server_is_up(
    up_s: float,
) -> None:
    async def story(stage: Stage) -> None:
        stage.namesrv.append(f"{stage.world.network.host('late').ip}:9876")
        await stage.broker()
        await trio.sleep_until(up_s)
        fake = await stage.name_server("late")
        await trio.sleep(1.01)
        assert len(fake.times_s) == 1
        _, recovered = stage.troubles
        assert isinstance(recovered, RegistrationRecovered)
        assert recovered.failing_for_ms <= (up_s + 1) * 1_000
        assert "has registered this broker, after" in recovered.sentence()

    on_stage(story)


def test_a_name_server_that_stays_away_is_asked_ever_more_seldom() -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        fake.refusal = "not yet"
        await stage.broker()
        await trio.sleep_until(7_200)
        waits_s = [b - a for a, b in itertools.pairwise(fake.times_s)]
        assert waits_s[:4] == pytest.approx([0.2, 0.5, 1.0, 1.0])
        assert sum(second < 60 for second in fake.times_s) < 70
        assert sum(second > 3_600 for second in fake.times_s) <= 2 * 3_600 / 30 + 1
        assert len(stage.troubles) == 1

    on_stage(story)


def test_a_name_server_that_has_registered_the_broker_once_is_asked_in_the_rounds_only() -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker()
        fake.refusal = "no more brokers here"
        await trio.sleep_until(75)
        assert fake.times_s == [0, 10, 40, 70]

    on_stage(story)


def test_without_a_retry_a_broker_that_started_first_waits_for_its_round_as_upstream() -> None:
    async def story(stage: Stage) -> None:
        stage.namesrv.append(f"{stage.world.network.host('late').ip}:9876")
        await stage.broker(register_retry_ms=0)
        fake = await stage.name_server("late")
        await trio.sleep_until(41)
        assert fake.times_s == [10, 40]

    on_stage(story)


def test_a_broker_without_a_name_server_says_once_what_to_give() -> None:
    async def story(stage: Stage) -> None:
        await stage.broker()
        await trio.sleep_until(100)
        (without,) = stage.alone
        assert "--namesrv" in without.sentence()
        assert "namesrvAddr" in without.sentence()

    on_stage(story)

"""A broker retries soon until a NameServer has registered it once, in virtual time."""

from __future__ import annotations

import itertools

import pytest
import trio

from rocketmq_emulator.facts import RegistrationRecovered
from tests.support.broker.registrations import RegistrationBench, with_bench


@pytest.mark.parametrize("up_s", [0.1, 3.3, 12.0, 59.0])
def test_a_broker_that_started_first_registers_within_a_second_once_its_name_server_is_up(
    up_s: float,
) -> None:
    async def main(bench: RegistrationBench) -> None:
        bench.namesrv.append(f"{bench.world.network.host('late').ip}:9876")
        await bench.broker()
        await trio.sleep_until(up_s)
        fake = await bench.name_server("late")
        await trio.sleep(1.01)
        assert len(fake.times_s) == 1
        _, recovered = bench.troubles
        assert isinstance(recovered, RegistrationRecovered)
        assert recovered.failing_for_ms <= (up_s + 1) * 1_000
        assert "has registered this broker, after" in recovered.sentence()

    with_bench(main)


def test_a_name_server_that_stays_away_is_asked_ever_more_seldom() -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        fake.refusal = "not yet"
        await bench.broker()
        await trio.sleep_until(7_200)
        waits_s = [b - a for a, b in itertools.pairwise(fake.times_s)]
        assert waits_s[:4] == pytest.approx([0.2, 0.5, 1.0, 1.0])
        assert sum(second < 60 for second in fake.times_s) < 70
        assert sum(second > 3_600 for second in fake.times_s) <= 2 * 3_600 / 30 + 1
        assert len(bench.troubles) == 1

    with_bench(main)


def test_a_name_server_that_has_registered_the_broker_once_is_asked_in_the_rounds_only() -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker()
        fake.refusal = "no more brokers here"
        await trio.sleep_until(75)
        assert fake.times_s == [0, 10, 40, 70]

    with_bench(main)


def test_without_a_retry_a_broker_that_started_first_waits_for_its_round_as_upstream() -> None:
    async def main(bench: RegistrationBench) -> None:
        bench.namesrv.append(f"{bench.world.network.host('late').ip}:9876")
        await bench.broker(register_retry_ms=0)
        fake = await bench.name_server("late")
        await trio.sleep_until(41)
        assert fake.times_s == [10, 40]

    with_bench(main)


def test_a_broker_without_a_name_server_says_once_what_to_give() -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.broker()
        await trio.sleep_until(100)
        (without,) = bench.alone
        assert "--namesrv" in without.sentence()
        assert "namesrvAddr" in without.sentence()

    with_bench(main)

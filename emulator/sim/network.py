"""Hosts joined by links that can be slow, stalled or broken.

A stream never loses bytes, it is only delayed or cut: so a rule adds a delay, and a
partition closes a gate at which later bytes are held.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketmq_emulator.faults.links_and_drives import Cut
from rocketmq_emulator.sim.host import Host
from rocketmq_emulator.sim.stream import Latency, Path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketmq_emulator.faults.links_and_drives import Rule, Traffic
    from rocketmq_emulator.net.transport import CommandsInFlight
    from rocketmq_emulator.sim.clock import VirtualClock
    from rocketmq_emulator.sim.determinism import SeededRngs

LOOPBACK = Latency(us_min=15, us_max=30)
HOSTS_MAX = 60_000


class VirtualNetwork:
    """All hosts of a world, and the rules in force between them.

    In *values* senders store the commands of their bytes for the far end; a test may pass a
    mapping that checks them.
    """

    def __init__(
        self,
        clock: VirtualClock,
        rngs: SeededRngs,
        latency: Latency | None = None,
        values: CommandsInFlight | None = None,
    ) -> None:
        self.values: CommandsInFlight = {} if values is None else values
        self._clock = clock
        self._rngs = rngs
        self._latency = latency or Latency()
        self._hosts: dict[str, Host] = {}
        self._by_ip: dict[str, Host] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._rules: list[Rule] = []

    def host(self, name: str, ip: str | None = None) -> Host:
        """The host *name*, created at the first call; addresses count up from 10.0.0.1."""
        if name not in self._hosts:
            address = ip or self._next_ip()
            if address in self._by_ip:
                raise ValueError(f"{address} belongs to {self._by_ip[address].name}")
            self._hosts[name] = self._by_ip[address] = Host(name, address, self, self._clock)
        return self._hosts[name]

    def find(self, where: str) -> Host | None:
        """The host with this name or address."""
        return self._by_ip.get(where) or self._hosts.get(where)

    @contextmanager
    def under(self, rule: Rule) -> Iterator[None]:
        """*rule* is in force inside the ``with``, and is removed after it, also on error."""
        self.begin(rule)
        try:
            yield
        finally:
            self.end(rule)

    def begin(self, rule: Rule) -> None:
        """*rule* is in force from now on, until ``end``."""
        self._rules.append(rule)
        self._apply_rules()
        if isinstance(rule.verdict, Cut):
            rule.tally.add("reset streams", self.cut(rule.traffic) // 2)

    def end(self, rule: Rule) -> None:
        """Remove *rule*: the bytes that it held are sent."""
        self._rules.remove(rule)
        self._apply_rules()

    def cut(self, traffic: Traffic) -> int:
        """Reset the open streams that *traffic* matches; returns the number of their ends."""
        ends = [
            stream
            for host in self._hosts.values()
            for stream in host.streams()
            if stream.is_between(traffic)
        ]
        for stream in ends:
            self._clock.at(self._clock.now_us, stream.receive_end, "reset")
        return len(ends)

    def path(self, source: str, target: str) -> Path:
        """The path from one host to another, with the rules now in force."""
        way = (source, target)
        if way not in self._paths:
            latency = LOOPBACK if source == target else self._latency
            path = Path(self._clock, self._rngs.rng(f"path {source}>{target}"), latency)
            path.target_has_power(self._hosts[target].has_power)
            self._paths[way] = path
            self._apply_rules_to(source, target, path)
        return self._paths[way]

    def power_changed(self, host: Host) -> None:
        """*host* lost its power, or has it again."""
        for (source, target), path in self._paths.items():
            if target == host.name:
                path.target_has_power(host.has_power)
            if source == host.name and not host.has_power:
                path.source_lost_power()

    def _apply_rules(self) -> None:
        for (source, target), path in self._paths.items():
            self._apply_rules_to(source, target, path)

    def _apply_rules_to(self, source: str, target: str, path: Path) -> None:
        # A machine always reaches itself.
        rules = self._rules if source != target else []
        path.apply([rule for rule in rules if rule.traffic(source, target)])

    def _next_ip(self) -> str:
        for number in range(len(self._hosts), HOSTS_MAX):
            address = f"10.0.{number // 250}.{number % 250 + 1}"
            if address not in self._by_ip:
                return address
        raise ValueError(f"a network has at most {HOSTS_MAX} hosts")

"""Client ids as real clients make them: ``<address>@<instance name>``.

A Java client whose instance name was not set takes ``<process id>#<nanoseconds>`` since 4.9, and
its process id alone before, as clients in Go and C++ do.  In containers the process id is
often 1 and the address is the pod's; some applications set the pod's name, or a UUID.  The
address comes first, so it decides the order of members.
Source: reference, client behaviour 1.1 (ClientConfig.buildMQClientId, changeInstanceNameToPID).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

Part: TypeAlias = Callable[[random.Random], str]

HOSTS_A_SUBNET = 250
PID_MAX = 32_768  # Linux, unless it is told otherwise
NANOS_MAX = 10**16  # System.nanoTime on a machine that is up for some months
POD_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes leaves out what could make words


class IdFormat(NamedTuple):
    """How an address and an instance name are made; a restart on the same host keeps *address*.

    Without *address* members have neighbouring ones in one subnet, in the order of their start.
    """

    instance: Part
    address: Part | None = None
    keeps_address: bool = True


class ClientIds:
    """Ids of one group's members; a member that starts again gets another one."""

    def __init__(self, kind: IdFormat, rng: random.Random) -> None:
        self._kind = kind
        self._rng = rng
        self._subnet = rng.randrange(256), rng.randrange(250)
        self._first = rng.randrange(HOSTS_A_SUBNET)
        self._addresses: dict[int, str] = {}
        self._given: set[str] = set()

    def start(self, at: int) -> str:
        """The id of the member number *at*, which starts now; never one that was given before."""
        while True:
            made = f"{self._address(at)}@{self._kind.instance(self._rng)}"
            if made not in self._given:
                self._given.add(made)
                return made

    def _address(self, at: int) -> str:
        if self._kind.address is None:
            second, third = self._subnet
            subnets, host = divmod(self._first + at, HOSTS_A_SUBNET)
            return f"10.{second}.{third + subnets}.{host + 1}"
        if not self._kind.keeps_address or at not in self._addresses:
            self._addresses[at] = self._kind.address(self._rng)
        return self._addresses[at]


def _any_address(rng: random.Random) -> str:
    return f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def _pod_address(rng: random.Random) -> str:
    return f"10.244.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def _pid(rng: random.Random) -> str:
    return str(rng.randrange(2, PID_MAX))


def _pid_nanos(rng: random.Random) -> str:
    return f"{_pid(rng)}#{rng.randrange(NANOS_MAX)}"


def _first_pid_nanos(rng: random.Random) -> str:
    return f"1#{rng.randrange(NANOS_MAX)}"


def _pod_name(rng: random.Random) -> str:
    return f"billing-7d9c5b6f48-{''.join(rng.choices(POD_LETTERS, k=5))}"


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


FORMATS: Mapping[str, IdFormat] = {
    "ip_pid": IdFormat(_pid),
    "ip_pid_nanos": IdFormat(_pid_nanos),
    "any_ip_pid_nanos": IdFormat(_pid_nanos, _any_address),
    "container": IdFormat(_first_pid_nanos, _pod_address, keeps_address=False),
    "pod_name": IdFormat(_pod_name, _pod_address, keeps_address=False),
    "uuid": IdFormat(_uuid, _pod_address, keeps_address=False),
}

"""The official mqadmin of 5.3.3 reads and changes a controller of ours, and a group of three."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.clusters import running
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.text.values import split_address
from tests.mqadmin.tool import AdminTool
from tests.sdk.toolchains import PartMissing

NAMES = {"clusterName": "C", "brokerName": "broker-a"}
CALL_S_MAX = 30
CHANGED = re.compile(r"=+([\d.:]+)=+|^enableElectUncleanMaster +=  (\w+)$", re.MULTILINE)
LEADER = re.compile(r"^#ControllerLeaderAddress\t(\S+)$", re.MULTILINE)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[AdminTool]:
    try:
        tool = AdminTool("5.3.3", tmp_path)
    except PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))
    yield tool
    tool.stop()


@contextmanager
def a_controller() -> Iterator[str]:
    command = (sys.executable, "-m", "rocketmq_emulator.cli", "controller")
    with subprocess.Popen(
        (*command, "--listen", "127.0.0.1:0"), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


@contextmanager
def two_brokers(address: str) -> Iterator[None]:
    """Both are alive while this lasts; 1 is the master, and both are in the sync-state set."""
    decoder = FrameDecoder()
    with socket.create_connection(split_address(address), CALL_S_MAX) as connection:

        def call(code: int, body: bytes = b"", **fields: object) -> None:
            ext = ext_of(None, fields)
            command = RemotingCommand(code=code, version=R_5_3_3.version, ext=ext, body=body)
            connection.sendall(encode_command(command))
            while (frame := decoder.next_frame()) is None:
                decoder.feed(connection.recv(65_536))
            assert decode_command(frame).code == 0

        for number in (1, 2):
            where = f"127.0.0.1:{20_000 + number}"
            applied = {"appliedBrokerId": number, "registerCheckCode": f"{where};1"}
            call(RequestCode.CONTROLLER_APPLY_BROKER_ID, **NAMES, **applied)
            alive = {"brokerAddr": where, "brokerId": number, "heartbeatTimeoutMills": 600_000}
            call(RequestCode.BROKER_HEARTBEAT, **NAMES, **alive)
        call(RequestCode.CONTROLLER_ELECT_MASTER, **NAMES, brokerId=1, designateElect="false")
        call(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}',
            brokerName="broker-a",
            masterBrokerId=1,
            masterEpoch=1,
        )
        yield


@pytest.mark.sdk
def test_mqadmin_reads_elects_configures_and_cleans(tool: AdminTool) -> None:
    with a_controller() as address, two_brokers(address):

        def run(line: str) -> str:
            command, *more = line.split()
            return tool.run((command, "-a", address, *more))

        metadata = run("getControllerMetaData")
        assert f"#ControllerLeaderAddress\t{address}\n#Peer:\tn0:{address}" in metadata
        members = run("getSyncStateSet -b broker-a")
        assert "#MasterBrokerId\t1\n#MasterAddr\t127.0.0.1:20001\n#MasterEpoch\t1\n" in members
        assert members.count("\nInSyncReplica:") == 2
        elected = run("electMaster -b 2 -bn broker-a -c C")
        assert "#BrokerMasterAddr\t127.0.0.1:20002\n#MasterEpoch\t2\n" in elected
        assert "NotInSyncReplica:\tReplicaIdentity{brokerName='broker-a', brokerId=1," in run(
            "getSyncStateSet -b broker-a"
        )
        assert "electMasterMaxRetryCount" in run("getControllerConfig")
        assert "success" in run("updateControllerConfig -k enableElectUncleanMaster -v true")
        refused = run("updateControllerConfig -k configStorePath -v x")
        assert "CODE: 16  DESC: Can not update config in black list." in refused
        assert "CODE: 2009" in run("cleanBrokerMetadata -bn broker-a -c C -b 2")
        assert "metadata from controller success" in run("cleanBrokerMetadata -bn broker-a -l")
        assert "#brokerName" not in run("getSyncStateSet -b broker-a")


UP = ("-m", "rocketmq_emulator.cli", "up", "--port", "0", "--brokers", "1", "--slaves", "1")
WAIT_S_MAX = 120.0  # a busy machine


def wait_for(is_true: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + WAIT_S_MAX
    while not is_true():
        assert time.monotonic() < until_s, f"in {WAIT_S_MAX} s it never was true that {what}"
        time.sleep(0.2)


@pytest.mark.sdk
def test_mqadmin_may_ask_any_of_three_controllers(tool: AdminTool) -> None:
    command = [sys.executable, *UP, "--controllers", "3", "--release", "5.3.3"]
    with running(command) as cluster:
        names = {address: name for name, address in cluster.controllers.items()}

        def run(address: str, line: str) -> str:
            command, *more = line.split()
            return tool.run((command, "-a", address, *more))

        def leader_at(address: str) -> str:
            found = LEADER.search(run(address, "getControllerMetaData"))
            return found[1] if found else ""

        leader = leader_at(next(iter(names)))
        others = [address for address in names if address != leader]
        follower = others[0]
        assert {leader_at(address) for address in names} == {leader}
        for address in names:
            shown = run(follower, "getControllerMetaData")
            assert re.search(rf"#Peer:\tn\d:{address}", shown), shown

        def in_sync() -> int:
            return run(follower, "getSyncStateSet -b broker-a").count("\nInSyncReplica:")

        wait_for(lambda: in_sync() == 2, "both brokers are in sync")
        epochs = ("getBrokerEpoch", "-n", cluster.namesrv, "-b", "broker-a")
        assert tool.run(epochs).count("EpochEntry{epoch=1, startOffset=0,") == 2

        elected = run(follower, "electMaster -b 2 -bn broker-a -c DefaultCluster")
        master = cluster.brokers["broker-a-1"]
        assert f"#BrokerMasterAddr\t{master}\n#MasterEpoch\t2\n" in elected
        clean = "cleanBrokerMetadata -bn broker-a -c DefaultCluster -b 1"
        assert "CODE: 2009" in run(follower, clean), "it is alive"

        change = "updateControllerConfig -k enableElectUncleanMaster -v true"
        assert "success" in run(follower, change)
        shown = run(";".join(names), "getControllerConfig")
        values = CHANGED.findall(shown)
        by_address = {values[at][0]: values[at + 1][1] for at in range(0, len(values), 2)}
        assert by_address == {address: str(address == follower).lower() for address in names}
        assert "success" in run(";".join(names), change)

        cluster.control_node(names[leader], "kill")
        wait_for(lambda: leader_at(follower) in others, "another controller leads")
        found = run(follower, "getSyncStateSet -b broker-a")
        assert f"#MasterBrokerId\t2\n#MasterAddr\t{master}\n#MasterEpoch\t2\n" in found
        cluster.control_node("broker-a", "kill")
        wait_for(lambda: "success" in run(follower, clean), "the dead broker is cleaned")
        assert "brokerId=1," not in run(follower, "getSyncStateSet -b broker-a")

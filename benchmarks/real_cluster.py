"""A real RocketMQ, run from the jars of Maven Central as one command, to compare with.

    python benchmarks/real_cluster.py --version 4.9.7 --brokers 2

It behaves as ``rmqemu up``: it prints one JSON line when all brokers are in the route and
accept, ``{"namesrv": …, "brokers": {name: address}, "pids": […], "ready_s": 5.3}``, then it
runs until SIGTERM or Ctrl-C and removes its temporary folder.  All servers listen on loopback.
The line's ``control`` is an address that takes ``POST /nodes/NAME/kill`` (kill -9),
``POST /nodes/NAME/start`` (with the same port and store; answered when the server accepts),
and ``…/pause`` and ``…/resume`` (SIGSTOP, SIGCONT), as ``rmqemu up`` does.  With
``--controllers`` (5.x) masters are elected.  Needs Java 17 and, the first time for a version,
Maven; it imports nothing of this project.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "real-rocketmq"
HOST = "127.0.0.1"
PORT_MIN, PORT_MAX = 12_000, 32_000  # Linux gives 32768 and more to outgoing connections
READY_S_MAX = 600.0  # a busy machine starts a JVM in minutes
STOP_S_MAX = 15.0
ANSWER_S_MAX = 20.0  # for the answer of a server that listens
GET_BROKER_CLUSTER_INFO = 106

# JVM options of the servers' own start scripts.
JVM = (
    "-XX:+UseG1GC",
    "-XX:-UseLargePages",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
LOGBACK = """<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d %p %t %logger - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="FILE"/></root>
</configuration>
"""


class Server(NamedTuple):
    """One JVM of the cluster."""

    name: str
    role: str  # a key of MAIN_CLASS, and the name of its log file
    port: int
    heap: str
    settings: dict[str, object]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


MAIN_CLASS = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
    "controller": "org.apache.rocketmq.controller.ControllerStartup",
}


def main() -> None:
    options = _options()
    jars = fetched_jars(options.version)
    home = options.dir or Path(tempfile.mkdtemp(prefix="real-rocketmq-"))
    servers = planned(options, home)
    began_s = time.monotonic()
    signal.signal(signal.SIGTERM, _leave)
    processes: list[subprocess.Popen[bytes]] = []
    nodes = Nodes(servers, processes, jars, home)
    control = ThreadingHTTPServer((HOST, 0), functools.partial(Control, nodes))
    try:
        processes += [launched(server, jars, home) for server in servers]
        _wait_until_ready(servers, processes, home, servers)
        threading.Thread(target=control.serve_forever, daemon=True).start()
        line = _ready_line(servers, processes, began_s)
        line["control"] = f"http://{HOST}:{control.server_port}"
        print(json.dumps(line), flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the program
            signal.pause()
    finally:
        _stop(processes)
        if options.dir is None:
            shutil.rmtree(home, ignore_errors=True)


def fetched_jars(version: str) -> Path:
    """The folder with the jars of *version*; Maven fetches them once."""
    folder = CACHE / f"lib-{version}"
    if not (folder / f"rocketmq-broker-{version}.jar").exists():
        folder.mkdir(parents=True, exist_ok=True)
        goal = ["dependency:copy-dependencies", f"-Drocketmq.version={version}"]
        maven = ["mvn", "-q", "-B", "-f", str(HERE / "real" / "pom.xml")]
        subprocess.run(
            [*maven, *goal, f"-DoutputDirectory={folder}"], check=True, stdout=sys.stderr
        )
    return folder


def planned(options: argparse.Namespace, home: Path) -> list[Server]:
    """The servers, NameServer first, each with its port and its settings."""
    namesrv_port = options.namesrv_port or free_ports(1)
    settings: dict[str, object] = {
        "listenPort": namesrv_port,
        "bindAddress": HOST,
        **_given(options.nset),
    }
    servers = [Server("namesrv", "namesrv", namesrv_port, "256m", settings)]
    controllers = controller_servers(options.controllers, home)
    servers += controllers
    for letter in range(options.brokers):
        master = f"broker-{chr(ord('a') + letter)}"
        for number in range(options.slaves + 1):
            name = f"{master}-{number}" if number else master
            fixed = options.broker_port + 100 * letter + 10 * number
            port = fixed if options.broker_port else free_ports(4) + 2
            settings = {
                "brokerClusterName": "DefaultCluster",
                "brokerName": master,
                "listenPort": port,
                "haListenPort": port + 1,
                "brokerIP1": HOST,
                "brokerIP2": HOST,
                "bindAddress": HOST,
                "namesrvAddr": servers[0].address,
                "storePathRootDir": home / name / "store",
                "storePathCommitLog": home / name / "store" / "commitlog",
                "autoCreateTopicEnable": "true",
                "mappedFileSizeCommitLog": 64 << 20,
                "mappedFileSizeConsumeQueue": 6_000_000,
                "diskMaxUsedSpaceRatio": 98,
                "brokerId": number,
                **_given(options.set),
                **_role(number, controllers),
            }
            servers.append(Server(name, "broker", port, options.heap, settings))
    return servers


def _given(pairs: list[str]) -> dict[str, object]:
    split = (pair.partition("=") for pair in pairs)
    return {name: value for name, _, value in split}


def _role(number: int, controllers: list[Server]) -> dict[str, object]:
    """The settings by which a broker is what it is; a controller grants ids and roles."""
    if controllers:
        addresses = ";".join(controller.address for controller in controllers)
        elected = {"enableControllerMode": "true", "controllerAddr": addresses}
        return {**elected, "brokerId": -1, "brokerRole": "SLAVE"}
    return {"brokerRole": "SLAVE"} if number else {}


def controller_servers(count: int, home: Path) -> list[Server]:
    """Controllers that elect a leader among them; each serves at its address as a peer."""
    ports = [free_ports(2) for _ in range(count)]
    names = ["controller"] if count == 1 else [f"controller-{letter}" for letter in "abc"[:count]]
    peers = ";".join(f"n{number}-{HOST}:{port}" for number, port in enumerate(ports))
    return [
        Server(
            name,
            "controller",
            port,
            "256m",
            {
                "listenPort": port + 1,
                "bindAddress": HOST,
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": peers,
                "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": home / name / "store",
                "mappedFileSize": 16 << 20,
            },
        )
        for number, (name, port) in enumerate(zip(names, ports, strict=True))
    ]


def free_ports(count: int) -> int:
    """The first of *count* consecutive free ports: a broker uses own - 2 to own + 1.

    None is in the range of outgoing connections: a JVM needs seconds until it listens, and on a
    busy machine another process would use such a port before.
    """
    while True:
        first = secrets.randbelow(PORT_MAX - PORT_MIN - count) + PORT_MIN
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def launched(server: Server, jars: Path, home: Path) -> subprocess.Popen[bytes]:
    folder = home / server.name
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    log = folder / f"{server.role}.log"
    (folder / "conf" / f"logback_{server.role}.xml").write_text(LOGBACK.format(log=log))
    conf = folder / f"{server.role}.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in server.settings.items()))
    with (folder / "console.out").open("wb") as console:
        return subprocess.Popen(
            [
                "java",
                f"-Xms{server.heap}",
                f"-Xmx{server.heap}",
                *JVM,
                f"-Duser.home={folder}",
                f"-Drocketmq.home.dir={folder}",
                "-cp",
                f"{jars}/*",
                MAIN_CLASS[server.role],
                "-c",
                str(conf),
            ],
            env=dict(os.environ, ROCKETMQ_HOME=str(folder), HOME=str(folder)),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
        )


class Nodes(NamedTuple):
    """The servers and, in the same order, their processes."""

    servers: list[Server]
    processes: list[subprocess.Popen[bytes]]
    jars: Path
    home: Path

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    def start(self, number: int) -> None:
        server = self.servers[number]
        self.processes[number] = launched(server, self.jars, self.home)
        _wait_until_ready([server], [self.processes[number]], self.home, ())

    def pause(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGCONT)


class Control(BaseHTTPRequestHandler):
    """``POST /nodes/NAME/kill``, ``…/start``, ``…/pause`` and ``…/resume``, answered when done."""

    def __init__(
        self, nodes: Nodes, stream: socket.socket, client: object, server: ThreadingHTTPServer
    ) -> None:
        self._nodes = nodes
        super().__init__(stream, client, server)  # it handles the request

    def do_POST(self) -> None:  # the name that http.server calls
        _, _, name, verb = [*self.path.split("/"), "", ""][:4]
        number = next((i for i, s in enumerate(self._nodes.servers) if s.name == name), None)
        nodes = self._nodes
        acts = {
            "kill": nodes.kill,
            "start": nodes.start,
            "pause": nodes.pause,
            "resume": nodes.resume,
        }
        act = acts.get(verb)
        if number is None or act is None:
            self.send_error(404)
            return
        act(number)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Requests are not logged."""


def registered_brokers(namesrv: str) -> str:
    """The NameServer's answer about its brokers; empty if it does not listen yet."""
    header = json.dumps(
        {"code": GET_BROKER_CLUSTER_INFO, "language": "JAVA", "version": 0, "opaque": 1, "flag": 0}
    ).encode()
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    host, port = namesrv.split(":")
    try:
        with (
            socket.create_connection((host, int(port)), ANSWER_S_MAX) as stream,
            stream.makefile("rb") as answers,
        ):
            stream.sendall(frame)
            return answers.read(int.from_bytes(answers.read(4), "big")).decode()
    except OSError:
        return ""


def _wait_until_ready(
    servers: list[Server],
    processes: list[subprocess.Popen[bytes]],
    home: Path,
    registered: Sequence[Server],
) -> None:
    """Wait until *servers* accept, and the NameServer knows the brokers of *registered*."""
    deadline_s = time.monotonic() + READY_S_MAX
    brokers = [server for server in registered if server.role == "broker"]
    while True:
        known = registered_brokers(servers[0].address) if brokers else ""
        are_known = all(f'"{broker.address}"' in known for broker in brokers)
        if are_known and all(_accepts(server.port) for server in servers):
            return
        dead = [s.name for s, p in zip(servers, processes, strict=True) if p.poll() is not None]
        if dead or time.monotonic() > deadline_s:
            shutil.copytree(home, kept := Path(tempfile.mkdtemp()), dirs_exist_ok=True)
            sys.exit(f"not ready; ended: {dead or 'none'}; consoles and logs are in {kept}")
        time.sleep(0.02)


def _ready_line(
    servers: list[Server], processes: list[subprocess.Popen[bytes]], began_s: float
) -> dict[str, object]:
    return {
        "namesrv": servers[0].address,
        "brokers": _addresses(servers, "broker"),
        "controllers": _addresses(servers, "controller"),
        "pids": [process.pid for process in processes],
        "ready_s": round(time.monotonic() - began_s, 3),
    }


def _addresses(servers: list[Server], role: str) -> dict[str, str]:
    return {server.name: server.address for server in servers if server.role == role}


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGCONT)  # one that is paused would not end
        process.terminate()
    for process in processes:
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), ANSWER_S_MAX):
            return True
    except OSError:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", default="4.9.7")
    parser.add_argument("--brokers", type=int, default=2)
    parser.add_argument("--slaves", type=int, default=0, help="replicas of each broker besides it")
    parser.add_argument("--controllers", type=int, default=0, help="5.x: they elect the masters")
    parser.add_argument("--namesrv-port", type=int, default=0, help="0: any free port")
    parser.add_argument(
        "--broker-port", type=int, default=0, help="port of the first broker; + 100 for each next"
    )
    parser.add_argument("--heap", default="512m", help="heap of each broker")
    parser.add_argument(
        "--dir", type=Path, help="keep stores and logs here (default: a temporary folder)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker property, repeatable",
    )
    parser.add_argument(
        "--nset",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property of the NameServer, repeatable",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()

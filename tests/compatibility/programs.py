"""The programs, one for each SDK: how to fetch, build and start them.

A program gets the NameServer's address, a prefix and, if only some are wanted, names of
features.  It checks each feature with topic and group PREFIX-FEATURE, which exist, and prints
``{"feature": …, "outcome": "works" | "fails" | "absent", "why": …}``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.sdk import toolchains
from tests.support.paths import TESTS

HERE = TESTS / "compatibility"
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m")


class Command(NamedTuple):
    """A command without the program's own arguments, and its environment."""

    words: list[str]
    environment: Mapping[str, str]


class Program(NamedTuple):
    """One SDK of the page; ``fetched`` raises ``toolchains.PartMissing``."""

    title: str
    package: str  # as its registry names it, with the version
    fetched: Callable[[Path], Command]  # given a folder for logs and local offsets


def _java(version: str) -> Program:
    def fetched(scratch: Path) -> Command:
        toolchains.need("java", "javac")
        name = f"compatibility-java-{version}"
        pom = HERE / "java" / "pom.xml"
        jars = toolchains.java_jars(name, pom, rocketmq_version=version)
        classes = toolchains.built_classes(f"{name}-program", HERE / "java", jars)
        return _jvm(scratch, f"{classes}:{jars}/*", "Main")

    return Program(f"Java {version}", f"org.apache.rocketmq:rocketmq-client:{version}", fetched)


def _spring(version: str) -> Program:
    def fetched(scratch: Path) -> Command:
        toolchains.need("java", "javac")
        jars = toolchains.java_jars("compatibility-spring", HERE / "spring" / "pom.xml")
        classes = toolchains.built_classes("compatibility-spring-program", HERE / "spring", jars)
        return _jvm(scratch, f"{classes}:{jars}/*", "Main")

    package = f"org.apache.rocketmq:rocketmq-spring-boot-starter:{version}"
    return Program(f"Spring starter {version}", package, fetched)


def _jvm(scratch: Path, classpath: str, main: str) -> Command:
    properties = {
        "rocketmq.client.localOffsetStoreDir": str(scratch),
        "rocketmq.client.logRoot": str(scratch),
        "rocketmq.client.rebalance.waitInterval": "1000",  # 1 s, not 20 s
        "rocketmq.client.rebalance.lockInterval": "1000",
        "user.home": str(scratch),
    }
    given = [f"-D{key}={value}" for key, value in properties.items()]
    return Command(["java", *QUICK_JVM, *given, "-cp", classpath, main], os.environ)


def _go(scratch: Path) -> Command:
    program = toolchains.go_program("compatibility-go", HERE / "go")
    return Command([str(program)], toolchains.go_environment(scratch))


def _node(scratch: Path) -> Command:
    folder = toolchains.node_packages("compatibility-node", HERE / "node" / "package.json")
    environment = {**os.environ, "NODE_PATH": str(folder / "node_modules"), "HOME": str(scratch)}
    return Command(["node", str(HERE / "node" / "main.js")], environment)


def _python(scratch: Path) -> Command:
    folder = toolchains.python_packages(
        "compatibility-python", HERE / "python" / "requirements.txt"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder), "HOME": str(scratch)}
    return Command([sys.executable, str(HERE / "python" / "main.py")], environment)


PROGRAMS: Mapping[str, Program] = {
    "java-4-9-8": _java("4.9.8"),
    "java-5-3-3": _java("5.3.3"),
    "java-5-4-0": _java("5.4.0"),
    "spring": _spring("2.3.5"),
    "go": Program("Go 2.1.2", "github.com/apache/rocketmq-client-go/v2@v2.1.2", _go),
    "node": Program("Node ali-ons 3.12.0", "ali-ons@3.12.0", _node),
    "python": Program("Python rocketmq 0.4.4", "rocketmq==0.4.4", _python),
}

"""The wheel for a package index, built here, installed outside of the clone, used as documented.

The new environment has the path of another environment's dependencies.  So nothing is downloaded,
and the tests notice a file that is missing in the wheel.  The other environment is that of the
tests, or that of ``WHEEL_PYTHON``, an interpreter of any version (``make newest``).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from tests.docs.test_docs import HERE, blocks, lines_of_a_program, programs
from tests.support.following import follow
from tests.support.import_graph import NAME, PACKAGES
from tests.support.paths import ROOT
from tests.support.wheels import built

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOME = "https://code.example/rocketmq-emulator"
START = "docs/start.md"
INSTALL_S_MAX = 60
INTERPRETER = os.environ.get("WHEEL_PYTHON", sys.executable)
FEW_ROWS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # halves Spark's CPU time for small data


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(files.read(name).decode())


# Contents -----------------------------------------------------------------------------


def test_the_wheel_names_its_licence_python_and_kind(wheel) -> None:
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert "rocketmq" in metadata["Keywords"]


def test_without_an_address_the_page_has_no_link_that_leads_nowhere(wheel) -> None:
    metadata = metadata_of(wheel)
    assert "Project-URL" not in metadata
    assert re.findall(r"\]\((?!https://)", metadata.get_payload()) == []


def test_the_page_names_commands_of_an_installed_package_and_none_of_a_clone(wheel) -> None:
    with zipfile.ZipFile(wheel) as files:
        packed = files.read(f"{NAME}/pages/README.md").decode()
    for page in (metadata_of(wheel).get_payload(), packed):
        first = next(line for line in page.splitlines() if "rmqemu" in line)
        assert first.startswith("rmqemu demo ")
        assert "pip install rocketmq-emulator " in page
        assert "pip install 'rocketmq-emulator[spark]'" in page
        assert re.findall(r"make (?:demo|test|live|docs)|pip install '?\.", page) == []


def test_with_an_address_every_link_and_picture_is_absolute(tmp_path) -> None:
    metadata = metadata_of(built("wheel", tmp_path, HOME))
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith(HOME) for url in urls.values())
    page = metadata.get_payload()
    assert re.findall(r"\]\((?!https://)", page) == []
    assert f"({HOME}/raw/v{PROJECT['version']}/docs/demo.svg)" in page
    assert f"[all of it]({HOME}/blob/v{PROJECT['version']}/docs/client.md)" in page


def tracked(*folders: str) -> list[str]:
    command = ["git", "ls-files", *folders]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return [name for name in found.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_wheel_has_every_file_of_the_packages_every_page_and_its_programs(wheel) -> None:
    with zipfile.ZipFile(wheel) as files:
        packed = {name for name in files.namelist() if ".dist-info/" not in name}
    folder = ROOT / "docs"
    pages = {page.relative_to(folder).as_posix() for page in folder.rglob("*.md")}
    programs = tracked("examples", "testkits")
    shown = {f"{NAME}/pages/{name}" for name in (*pages, "README.md", *programs)}
    assert packed == {*map(installed, tracked(*PACKAGES)), *shown}


def installed(file: str) -> str:
    """The path of a file of the checkout in an installed package."""
    top, _, inner = file.partition("/")
    return file if top == "pyspark_rocketmq" else f"{NAME}/{file if top != 'emulator' else inner}"


def test_the_image_is_built_from_every_package() -> None:
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in (*PACKAGES, NAME)} <= set(kept)
    assert "COPY . .\n" in (ROOT / "Dockerfile").read_text()


def test_a_source_distribution_makes_the_same_wheel(wheel, tmp_path) -> None:
    archive = built("sdist", tmp_path / "sdist")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("rocketmq_emulator-*")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "wheel"]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    assert not [file for file in source.rglob("*") if file.is_symlink()]
    (again,) = (tmp_path / "wheel").iterdir()
    assert again.read_bytes() == wheel.read_bytes()


def test_the_page_and_the_classifiers_name_the_same_pythons(wheel) -> None:
    prefix = "Programming Language :: Python :: 3."
    classifiers = metadata_of(wheel).get_all("Classifier", [])
    named = {name.removeprefix(prefix) for name in classifiers if name.startswith(prefix)}
    text = " ".join((ROOT / START).read_text().split())
    (said,) = re.findall(r"every test runs on 3\.(\d+), .* on ([^`]*) too\.", text, re.DOTALL)
    assert named == {said[0], *re.findall(r"\b3\.(\d+)", said[1])}


# Use ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """The interpreter of an environment outside of the clone that has the wheel."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([INTERPRETER, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    offline = ["--no-deps", "--no-index", "--disable-pip-version-check", wheel]
    subprocess.run([*install, *offline], check=True, timeout=INSTALL_S_MAX)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(dependencies() + "\n")
    return python


def dependencies() -> str:
    """The folder of installed packages that belongs to ``INTERPRETER``."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    command = [INTERPRETER, "-c", program]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def namesrv(python, tmp_path_factory) -> Iterator[str]:
    """The NameServer of a cluster, started with the ``rmqemu`` of the wheel."""
    rmqemu = [python.parent / "rmqemu", "up", "--port", "0"]
    with subprocess.Popen(
        rmqemu, cwd=tmp_path_factory.mktemp("up"), stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout is not None
        try:
            yield json.loads(up.stdout.readline())["namesrv"]
        finally:
            up.terminate()


def test_the_installed_package_is_the_wheel_s_own(python, tmp_path) -> None:
    program = "import rocketmq_emulator as it; print(it.__file__, it.__version__)"
    file, version = lines_of_a_program([python, "-c", program], 1, tmp_path)[0].split()
    assert Path(file).is_relative_to(python.parent.parent)
    assert version == PROJECT["version"]


def test_the_installed_command_shows_the_pages(python, tmp_path) -> None:
    rmqemu = python.parent / "rmqemu"
    pages = subprocess.run([rmqemu, "docs"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert len(pages.splitlines()) > len([*(ROOT / "docs").rglob("*.md")])
    shown = lines_of_a_program([rmqemu, "docs", "control"], 1, tmp_path)
    assert shown[0] == "# The control address"


def test_the_programs_of_the_first_steps_run_as_written(python, namesrv, tmp_path) -> None:
    shown = [(code, output) for page, code, output in programs() if page == START]
    assert len(shown) >= 2
    for code, output in shown:
        wanted = output.splitlines()
        program = [python, "-c", code.replace(HERE, namesrv)]
        assert lines_of_a_program(program, len(wanted), tmp_path) == wanted, code


def test_the_test_of_the_first_steps_passes(python, tmp_path) -> None:
    (test,) = [text for _, text in blocks(START) if "def test_" in text]
    (tmp_path / "test_readme.py").write_text(test)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_readme.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in run.stdout, run.stdout


def test_the_page_that_scripts_a_failure_can_be_followed_from_nothing(python, tmp_path) -> None:
    assert follow(blocks("docs/script-a-failure.md"), tmp_path, python.parent) >= 6
    assert "pause" in (tmp_path / "smallest.toml").read_text()
    assert (tmp_path / "hangs.html").stat().st_size > 50_000


# In a project whose packages have the names of our folders ---------------------------------

SDK_MONITORS = ("protocol", "scenarios", "pipeline", "emulator", "tests")
FOREIGN_TEST = """
import emulator, pipeline, protocol, scenarios, tests
from rocketmq_emulator import Message
from rocketmq_emulator.sync import Producer

def test_their_own_packages_come_first():
    assert all(m.MINE for m in (emulator, pipeline, protocol, scenarios, tests))

def test_the_fixture_works(rocketmq):
    with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        producer.send(Message("Orders", b"1"))

async def test_the_virtual_cluster_works(virtual_cluster):
    assert virtual_cluster.node_names
"""
FOREIGN_SCENARIO = '''
from rocketmq_emulator.scenarios import Run, nothing_lost, scenario

@scenario()
async def nobody_dies(run: Run) -> None:
    """A group consumes ten seconds of messages."""
    await run.cluster(brokers=1, topics={"orders": 2})
    await run.consumers("billing", topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(10)
    await run.until_quiet()
    run.expect(nothing_lost())
'''


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> Path:
    """A project with packages of these names; its folder is the first on the path."""
    folder = tmp_path_factory.mktemp("foreign")
    for name in SDK_MONITORS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("MINE = True\n")
    (folder / "tests" / "test_orders.py").write_text(FOREIGN_TEST)
    (folder / "scenarios" / "orders.py").write_text(FOREIGN_SCENARIO)
    return folder


def in_foreign(foreign: Path, *command: str | Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(foreign), "JDK_JAVA_OPTIONS": FEW_ROWS}
    done = subprocess.run(
        command, cwd=foreign, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_foreign_project_uses_the_plugin(python, foreign) -> None:
    words = ("-q", "-p", "no:cacheprovider", "-p", "trio")
    assert "3 passed" in in_foreign(foreign, python, "-m", "pytest", *words, "tests")


def test_a_foreign_project_runs_its_scenarios_and_sweeps_them_on_spark(python, foreign) -> None:
    rmqemu, file = python.parent / "rmqemu", "scenarios/orders.py"
    assert "passed" in in_foreign(foreign, rmqemu, "run", file, "--journal", "journals")
    assert "billing: 1 member" in in_foreign(foreign, rmqemu, "scenario", "show", file)
    words = ("--seeds", "1..2", "--to", "swept")
    assert "2 passed" in in_foreign(foreign, rmqemu, "sweep", file, *words)
    words = ("journals", "--to", "tables", "--facts-only")  # the rest imports no more of ours
    assert "facts" in in_foreign(foreign, rmqemu, "tables", *words)

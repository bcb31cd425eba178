"""The errors when Spark cannot start, and the settings of the session."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_emulator.pipeline.java_classes import ClassesNotKept, keeping
from rocketmq_emulator.pipeline.session import (
    Java,
    SparkUnavailable,
    _java_options,
    archive_path,
    check_java,
)


def a_java(folder: Path, says: str, code: int = 0) -> Path:
    """The home folder of a program ``java`` that prints *says*."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_a_java_that_is_new_enough_is_taken(tmp_path, says, major) -> None:
    home = a_java(tmp_path, says)
    assert check_java({"JAVA_HOME": str(home), "PATH": ""}).major == major
    assert check_java({"PATH": str(home / "bin")}).major == major


@pytest.mark.parametrize(
    ("says", "named"), [('java version "1.8.0_402"', "8"), ('openjdk version "11.0.2"', "11")]
)
def test_a_java_that_is_too_old_is_named_with_what_to_do(tmp_path, says, named) -> None:
    home = a_java(tmp_path, says)
    with pytest.raises(
        SparkUnavailable, match=rf"17 or later, and JAVA_HOME=.* is {named}: install"
    ):
        check_java({"JAVA_HOME": str(home), "PATH": ""})


def test_no_java_at_all_is_a_sentence(tmp_path) -> None:
    with pytest.raises(SparkUnavailable, match=r"there is none on PATH: install Java 17 or later"):
        check_java({"PATH": str(tmp_path)})


def test_a_java_home_that_is_none_is_named(tmp_path) -> None:
    with pytest.raises(SparkUnavailable, match=r"JAVA_HOME=.*nowhere does not run"):
        check_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": os.environ["PATH"]})


def test_a_java_that_fails_or_says_nothing_of_use_is_named(tmp_path) -> None:
    fails = a_java(tmp_path / "fails", "no memory", code=1)
    with pytest.raises(SparkUnavailable, match="does not run"):
        check_java({"JAVA_HOME": str(fails), "PATH": ""})
    odd = a_java(tmp_path / "odd", "hello")
    with pytest.raises(SparkUnavailable, match="does not say its version"):
        check_java({"JAVA_HOME": str(odd), "PATH": ""})


def test_workers_of_a_session_run_this_interpreter(spark) -> None:
    def interpreters(batches):
        import pyarrow as pa  # noqa: PLC0415  # in the worker

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1).mapInArrow(interpreters, "python string").collect()
    assert [row.python for row in rows] == [sys.executable]


def test_a_session_speaks_on_loopback_and_leaves_no_folder(spark) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    spark.range(3).createOrReplaceTempView("three")
    spark.sql("select * from three").collect()
    assert not Path("spark-warehouse").exists()
    assert not Path("artifacts").exists()


HELLO = 'class Hello { public static void main(String[] words) { System.out.println("hello"); } }'
QUIET_SESSION = """
from rocketmq_emulator.pipeline.session import *

session = spark_session("quiet", 1, {JAVA_OPTIONS: "-XX:TieredStopAtLevel=1"})
print(session.range(3).count())
java = session.sparkContext._gateway.proc
print("-XX:SharedArchiveFile" in open(f"/proc/{java.pid}/cmdline").read())
end_session()
print(java.poll())
"""


def test_a_session_says_nothing_of_its_own_also_beside_classes_of_another_program(
    spark, tmp_path, monkeypatch
) -> None:
    del spark  # requested only to skip this test if there is no Spark
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "Hello.java").write_text(HELLO)
    with keeping(archive_path(check_java(os.environ))) as options:
        said = run("java", *options.split(), str(tmp_path / "Hello.java"))
    assert (said.stdout, said.stderr) == ("hello\n", "")
    session = run(sys.executable, "-c", QUIET_SESSION)  # one compiler: half the CPU time
    assert session.stdout.split() == ["3", "True", "0"], "Java took the option, and has ended"
    said = [line for line in session.stderr.splitlines() if "jdk.incubator" not in line]
    assert said == [], "the incubator's line is Java's own"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=True)


def test_kept_classes_are_used_by_later_sessions_of_the_same_java_only(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = Java(17, "17.0.15")
    assert "SharedArchiveFile" not in _java_options("-Xmx1g", java), "nothing is kept yet"
    kept = archive_path(java)
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"classes")
    options = _java_options("-Xmx1g", java)
    assert f"-XX:SharedArchiveFile={kept}" in options
    assert "-Xmx1g" in options
    assert "SharedArchiveFile" not in _java_options("", Java(21, "21.0.2"))
    own = "-XX:SharedArchiveFile=mine.jsa"
    assert str(kept) not in _java_options(own, java), "Java takes one archive: the user's"


def keep(archive: Path, written: bytes) -> None:
    """Write *written* where Java would write its classes."""
    with keeping(archive) as options:
        Path(options.split()[0].partition("=")[2]).write_bytes(written)


def test_an_archive_that_java_did_not_finish_gets_no_name(tmp_path) -> None:
    archive = tmp_path / "java" / "kept.jsa"
    with pytest.raises(ClassesNotKept, match="wrote no archive"), keeping(archive):
        pass
    bad = a_java(tmp_path / "bad", "memory fault", code=134)
    for written in (b"", b"a part of an archive"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAVA_HOME", str(bad))
            with pytest.raises(ClassesNotKept, match="does not start"):
                keep(archive, written)
    assert list(archive.parent.iterdir()) == []

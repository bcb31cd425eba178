"""A Spark session on this machine, or an error that names what is missing.

Spark runs on Java: without a new enough Java, PySpark fails with the stack trace of a shell
script.  So Java is checked first.  An active session of the program is used as it is;
a new one listens on loopback only, leaves no folders where it was started, and retries a failed
task, which ``local[2]`` would not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.pipeline import java_classes
from rocketmq_emulator.protocol.error_families import CannotDoHere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17  # of Spark 4
JAVA_S_MAX = 30  # until `java -version` ends
TASK_TRIES = 8  # attempts of one task; local[N] alone would end the job at the first failure
PARTITIONS_A_CORE = 2  # of a shuffle: Spark's default of 200 suits a cluster
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
INSTALL = "pip install 'rocketmq-emulator[spark]'"
A_VERSION = re.compile(r'version "((\d+)(?:\.(\d+))?[\w.+-]*)"')
OWN_ARCHIVE = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit")  # Java takes one of them


class Java(NamedTuple):
    """The Java that Spark would start: 17 and "17.0.15"."""

    major: int
    version: str


class SparkUnavailable(CannotDoHere):
    """Spark cannot be started on this machine; nothing was started.  The text says what to do."""


def spark_session(
    name: str, cores: int | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this program, or a new one on *cores* (default: all) of this machine.

    *settings* are Spark's own, by name; they override ours.  With ``spark.master`` among them, or
    MASTER in the environment (as for spark-submit's shells), the session uses that cluster.
    Raises ``SparkUnavailable``.
    """
    java = check_spark()
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra: other commands never load it

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    given = {**_defaults(cores, settings or {}), **(settings or {})}
    if given["spark.master"].startswith("local"):  # a cluster's executors connect to this machine
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    given[JAVA_OPTIONS] = _java_options(given.get(JAVA_OPTIONS, ""), java)
    for key, value in given.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def end_session() -> None:
    """End this program's session and its Java, and wait for Java.

    Raises ``ClassesNotKept`` if Java does not end, or belongs to another program.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra

    running = SparkSession.getActiveSession()
    if running is None:
        raise java_classes.ClassesNotKept("Spark was not started, because nothing was new")
    java_classes.end(running)


def _java_options(given: str, java: Java) -> str:
    own = any(name in given for name in OWN_ARCHIVE)
    kept = "" if own else java_classes.options(archive_path(java))
    return " ".join(filter(None, (QUIET, given, kept)))


def archive_path(java: Java) -> Path:
    """The file of the classes that *java* loads for the installed Spark."""
    from pyspark import __version__  # noqa: PLC0415  # an extra

    return java_classes.archive_of(java.version, __version__)


def _defaults(cores: int | None, settings: Mapping[str, str]) -> dict[str, str]:
    count = cores or len(os.sched_getaffinity(0))
    here = os.environ.get("MASTER", f"local[{count},{TASK_TRIES}]")
    folder = Path(tempfile.gettempdir()) / f"rmqemu-spark-{os.getpid()}"
    found = {
        "spark.master": settings.get("spark.master", here),
        "spark.task.maxFailures": str(TASK_TRIES),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(count * PARTITIONS_A_CORE),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder),
    }
    if found["spark.master"].startswith("local"):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return found


def check_spark() -> Java:
    """The Java that Spark would start.

    Raises ``SparkUnavailable`` unless PySpark, its packages and Java are installed.
    """
    for module in ("pyspark", "pyarrow", "pandas"):
        try:
            __import__(module)
        except ImportError:
            raise SparkUnavailable(f"{module} is not installed: {INSTALL}") from None
    return check_java(os.environ)


def check_java(environ: Mapping[str, str]) -> Java:
    """The Java that Spark would start.  Raises ``SparkUnavailable``."""
    home = environ.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "the first java on PATH"
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ["PATH"])
    advice = f"install Java {JAVA_MIN} or later, or let JAVA_HOME lead to one"
    if java is None:
        raise SparkUnavailable(f"Spark needs Java, and there is none on PATH: {advice}")
    try:
        said = subprocess.run(  # noqa: S603  # the path comes from the user's own environment
            [java, "-version"], capture_output=True, text=True, check=True, timeout=JAVA_S_MAX
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkUnavailable(
            f"Spark needs Java, and {where} does not run ({error}): {advice}"
        ) from None
    found = A_VERSION.search(said)
    if found is None:
        raise SparkUnavailable(f"{where} does not say its version ({said.strip()!r}): {advice}")
    major = int(found[3] or 0) if found[2] == "1" else int(found[2])
    if major < JAVA_MIN:
        raise SparkUnavailable(
            f"Spark needs Java {JAVA_MIN} or later, and {where} is {major}: {advice}"
        )
    return Java(major, found[1])


def cause_of(error: BaseException) -> str:
    """The first line of what made Spark fail; PySpark's own texts are Java's whole traces."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.toString()).splitlines()[0]

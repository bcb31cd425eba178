"""What Java loads for Spark, kept between sessions: the next start takes a third less time.

Java reads, checks and links about ten thousand classes of Spark at each start.  A *class data
sharing archive* has them as they are in memory.  ``keeping`` lets the Java of one session write
such an archive (about 200 MB) when it ends; later sessions use it through ``options``.

Java itself ignores an archive of another Java, or of other jars.  But it trusts the content: a
partial file would end it with a memory fault, so a file gets its name only after a start with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rocketmq_emulator.protocol.error_families import CannotDoHere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS_S_MAX = 120  # until Java has written the archive
STARTS_S_MAX = 30  # the first start with it
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # an archive that Java ignores is no news to a user


class ClassesNotKept(CannotDoHere):
    """Java wrote no archive that it can use; nothing is kept, and sessions start as before."""


def archive_of(java_version: str, spark_version: str) -> Path:
    """The file of one Java and one Spark, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = f"java-{java_version}-spark-{spark_version}.jsa"
    return Path(base) / "rocketmq-emulator" / "java" / name


def options(archive: Path) -> str:
    """Java's options to start with *archive*; none if there is no such file."""
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if archive.is_file() else ""


@contextmanager
def keeping(archive: Path) -> Iterator[str]:
    """Java's options for a session that writes *archive*; the session must end in this block.

    Raises ``ClassesNotKept`` if the file cannot be used after that.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    try:
        yield f"-XX:ArchiveClassesAtExit={partial} {SILENT}"
        _check(partial)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)


def _check(partial: Path) -> None:
    """Raises ``ClassesNotKept`` unless a Java starts with the file *partial*."""
    if not partial.is_file():
        raise ClassesNotKept(f"Java wrote no archive of its classes to {partial.parent}")
    java = [_java(os.environ), f"-XX:SharedArchiveFile={partial}", "-version"]
    try:
        subprocess.run(java, check=True, capture_output=True, timeout=STARTS_S_MAX)  # noqa: S603  # the user's own Java
    except (OSError, subprocess.SubprocessError) as error:
        raise ClassesNotKept(f"Java does not start with the archive it wrote: {error}") from None


def _java(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def end(session: SparkSession) -> None:
    """End *session* and its Java, and wait until that has written what it keeps."""
    gateway = session.sparkContext._gateway  # noqa: SLF001  # PySpark has no public way to wait
    session.stop()
    java = getattr(gateway, "proc", None)
    if java is None:  # started by another program, such as spark-submit
        raise ClassesNotKept("Java was started by another program, which must end it")
    java.stdin.close()
    try:
        java.wait(ENDS_S_MAX)
    except subprocess.TimeoutExpired:
        java.kill()
        raise ClassesNotKept(f"Java did not end within {ENDS_S_MAX} s") from None

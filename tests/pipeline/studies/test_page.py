"""A study as a page and as tables: the contents of the files."""

from __future__ import annotations

import base64
import csv
import re
import subprocess
import sys
import tomllib
import zlib

import msgspec
import pyarrow.parquet as pq
import pytest
import typer
from plotly.offline import get_plotlyjs

from rocketmq_emulator.cli.commands.spark import study
from rocketmq_emulator.cli.options.errors import BAD_USE
from rocketmq_emulator.pipeline.studies.page import (
    PlotlyMissing,
    find_plotly,
    write_files,
    write_study_page,
)
from tests.support.paths import ROOT
from tests.support.pipeline.studies_by_hand import HOSTILE, a_study

PAGE_BYTES_MAX = 3_000_000


@pytest.fixture(scope="module")
def page() -> str:
    return write_study_page(a_study())


def unpacked(page: str, part: str) -> bytes:
    (found,) = re.findall(rf'id="{part}">([^<]*)</script>', page)
    return zlib.decompress(base64.b64decode(found))


def test_a_page_stands_alone_with_plotly_in_it_once(page) -> None:
    assert len(page.encode()) < PAGE_BYTES_MAX
    assert unpacked(page, "plotly").startswith(b"/**\n* plotly.js")
    assert not re.findall(r"""(?:src|href)=["']https?:""", page)
    assert "default-src 'none'" in page


def test_plotly_is_one_file_of_the_installed_package_which_is_not_imported(page) -> None:
    assert unpacked(page, "plotly") == get_plotlyjs().encode()
    code = f"import sys; from {find_plotly.__module__} import find_plotly; find_plotly(); "
    loaded = subprocess.run(
        [sys.executable, "-c", f"{code}print(*sys.modules)"], capture_output=True, check=True
    )
    assert b"plotly" not in loaded.stdout.split()


def test_only_the_extra_that_draws_studies_installs_plotly() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {None: project["dependencies"], **project["optional-dependencies"]}
    assert [name for name, needs in wanted.items() if "plotly" in " ".join(needs)] == ["study"]
    assert "rocketmq-emulator[spark]" in wanted["study"]


def test_without_plotly_nothing_is_started_and_the_extra_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("rocketmq_emulator.pipeline.studies.page.find_spec", lambda _: None)
    monkeypatch.setattr("rocketmq_emulator.pipeline.session.check_spark", lambda: None)
    with pytest.raises(PlotlyMissing) as missing:
        find_plotly()
    assert str(missing.value) == (
        "plotly is not installed: pip install 'rocketmq-emulator[study]'"
    )
    with pytest.raises(typer.Exit) as end:
        study(tmp_path)
    assert end.value.exit_code == BAD_USE


def test_names_are_data_and_never_a_part_of_the_page(page) -> None:
    assert HOSTILE not in page
    data = msgspec.json.decode(unpacked(page, "data"))
    assert data["parameters"][0]["values"] == ["circle", HOSTILE]


def test_a_page_has_every_number_with_its_seed(page) -> None:
    cell = msgspec.json.decode(unpacked(page, "data"))["cells"][2]
    assert cell["at"] == [0, 1, 0]
    assert cell["numbers"]["0"]["values"] == [1, 2.5, 3]
    assert cell["numbers"]["0"]["seeds"] == [2, 3, 1]


def test_tables_beside_the_page_have_what_the_plots_show(tmp_path) -> None:
    written = write_files(a_study(), tmp_path)
    names = ("combinations", "curves", "verdicts", "releases")
    assert {path.name for path in written} == {
        f"{n}.{e}" for n in names for e in ("csv", "parquet")
    }
    for name in names:
        with (tmp_path / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == pq.read_table(tmp_path / f"{name}.parquet").num_rows
    combinations = pq.read_table(tmp_path / "combinations.parquet").to_pylist()
    (row,) = [r for r in combinations if r["members"] == 10 and r["release"] == "4.9.7"
              and r["strategy"] == "circle" and r["metric"] == "idle"]  # fmt: skip
    assert (row["smallest"], row["smallest_seed"], row["largest"], row["largest_seed"]) == (
        1.0,
        2,
        3.0,
        1,
    )
    verdicts = pq.read_table(tmp_path / "verdicts.parquet").to_pylist()
    assert [r["first_not_passed_seeds"] for r in verdicts if r["failed"]] == ["1 2"]
    change = pq.read_table(tmp_path / "releases.parquet").to_pylist()[1]
    assert (change["release_before"], change["release_after"]) == ("4.9.7", "5.1.4")
    assert (change["members"], change["difference"]) == (10, 2.0)

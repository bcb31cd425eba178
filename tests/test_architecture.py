"""ARCHITECTURE.md shows the folders and layers of the code, and each of its paths exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.import_graph import folder_of, path_of
from tests.support.visited_files import PAGE, ROOT
from tests.test_layers import LAYERS

FOLDER = re.compile(r"`([\w/]+)`")


def rows() -> list[list[str]]:
    """The cells of the table of floors; each row has the number of its floor."""
    text = PAGE.read_text().partition("\n## Floors and rooms")[2].partition("\n## ")[0]
    found, floor = [], ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and "`" in cells[1]:
            floor = cells[0] or floor
            found.append([floor, *cells[1:]])
    return found


def room_of(folder: str) -> str:
    """The room of LAYERS: the first part of the module's name, except for the library."""
    below = folder.removeprefix("emulator").removeprefix("/").replace("/", ".")
    return below if below == "scenarios.library" else below.partition(".")[0]


def test_the_page_has_every_folder_with_code() -> None:
    shown = [folder for row in rows() for folder in FOLDER.findall(row[1])]
    folders = {folder_of(name) for name in path_of()} - {"pyspark_rocketmq", "."}
    assert len(folders) > 40
    assert sorted(shown) == sorted(folders)


@pytest.mark.parametrize("floor", range(1, len(LAYERS) + 1))
def test_the_floors_of_the_page_are_the_layers(floor: int) -> None:
    rooms = {
        room_of(folder)
        for number, folders, *_ in rows()
        for folder in FOLDER.findall(folders)
        if number == str(floor)
    }
    assert rooms == set(LAYERS[floor - 1])


def test_reading_starts_at_a_file_of_the_room() -> None:
    for _, folders, _, starts in rows():
        file = re.findall(r"`([\w/.]+)`", starts)[0]
        place = Path(file).parent.as_posix()
        assert (ROOT / file).is_file(), f"{file} does not exist"
        assert any(place.startswith(folder) for folder in FOLDER.findall(folders)), file


def test_every_path_on_the_page_exists() -> None:
    named = re.findall(
        r"`((?:emulator|protocol|scenarios|pipeline|tests|docs|tools)/[^`\s]*)`", PAGE.read_text()
    )
    assert len(named) > 150
    for path in named:
        head, brace, rest = path.partition("{")
        names = rest.partition("}")[0].split(",") if brace else [""]
        tail = rest.partition("}")[2]
        for name in names:
            assert (ROOT / f"{head}{name}{tail}").exists(), f"{path} does not exist"

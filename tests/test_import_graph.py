"""No import circles between files, and none between folders.

Imports for type checkers count as well: a file that needs a type of another file depends on it.
A folder has the files directly in it, without those of its subfolders; so the imports of a
package's ``__init__`` count for the folder of the package.
"""

from __future__ import annotations

from collections import Counter

from tests.support.import_graph import between_folders, circles, folder_of, graph, path_of

FILES_MAX = 25  # in one folder


def test_no_two_files_import_each_other() -> None:
    assert circles(graph(with_types=True)) == []


def test_no_two_folders_import_each_other() -> None:
    assert circles(between_folders(graph(with_types=True))) == []


def test_nothing_imports_the_public_names_but_what_is_written_as_users_write() -> None:
    importers = {
        folder_of(name)
        for name, others in graph(with_types=True).items()
        if others & {"rocketmq_emulator", "rocketmq_emulator.scenarios"}
    }
    assert importers == {"scenarios/library"}


def test_a_folder_can_be_looked_over() -> None:
    files = Counter(folder_of(name) for name in path_of())
    assert {folder: count for folder, count in files.items() if count > FILES_MAX} == {}


def test_a_circle_would_be_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
    assert circles(edges) == [["a", "b", "c"]]


def test_a_circle_of_folders_would_be_found() -> None:
    first, second = "rocketmq_emulator.net.held_calls", "rocketmq_emulator.net.tcp"
    disk = "rocketmq_emulator.disk.port"
    edges = {first: {disk}, disk: {second}, second: set()}
    assert circles(edges) == []
    assert circles(between_folders(edges)) == [["emulator/disk", "emulator/net"]]

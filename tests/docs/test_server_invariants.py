"""The table of server invariants: without a gap, checked by tests, and on its page."""

from __future__ import annotations

import pytest

from docs.generate.sections import with_section
from docs.generate.server_invariants import (
    PAGE,
    ServerInvariant,
    held_by_row,
    numbers_in,
    read_rows,
    server_invariants_text,
)

ROWS: dict[str, ServerInvariant] = {
    number: row for rows in read_rows().values() for number, row in rows.items()
}


NOT_YET: list[str] = []


def test_the_table_has_74_of_servers_and_67_of_replication_in_order() -> None:
    plain = [str(number) for number in range(1, 75)]
    assert list(ROWS) == [*plain, *(f"R{number}" for number in range(1, 68))]


def test_every_row_has_tests_or_another_row_that_has_them_or_says_why_not() -> None:
    tests = held_by_row()

    def is_checked(number: str) -> bool:
        row = ROWS[number]
        others = bool(row.same_as) and all(tests.get(other) for other in row.same_as)
        return bool(tests.get(number)) or others or bool(row.unseen)

    assert [number for number in ROWS if not is_checked(number)] == NOT_YET


def test_only_files_on_disk_go_without_tests() -> None:
    files = read_rows()["store_on_disk"]
    assert {number for number, row in ROWS.items() if row.unseen} <= files.keys()


def test_no_test_names_a_row_that_does_not_exist() -> None:
    assert held_by_row().keys() - ROWS.keys() == set()


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("test_invariant_07_a_promoted_slave", ["7"]),
        ("test_invariants_34_and_35_a_delayed_send", ["34", "35"]),
        ("test_r7_a_slave", ["R7"]),
        ("test_r22_r26_r27_a_slave_refuses", ["R22", "R26", "R27"]),
        ("test_r11_and_r13_two", ["R11", "R13"]),
        ("test_client_invariant_07_routes", []),
        ("test_retries_7_times", []),
    ],
)
def test_the_name_of_a_test_says_its_rows(name: str, numbers: list[str]) -> None:
    assert list(numbers_in(name)) == numbers


def test_the_page_of_invariants_matches_the_rows() -> None:
    page = PAGE.read_text()
    expected = with_section(page, "server invariants", server_invariants_text())
    assert expected == page, "run make page"

"""MySQL's releases are named by year and month since 26.7: each is newer than 9.7, wherever versions
are compared; a build may add a fourth part.
"""

import pytest

from dballoc.allocators import version_ranges
from dballoc.fetch import name_and_version
from dballoc.servers import client_programs
from dballoc.servers.families import describe_family
from dballoc.servers.running import option_files

IN_ORDER = [
    "5.7.44",
    "8.0.33",
    "8.4.6",
    "9.7.0",
    "26.7.0",
    "26.7.0.1",
    "26.7.1",
    "26.10.0",
    "27.1.0",
]
CALENDAR = IN_ORDER[4:]


def test_they_are_sorted_by_their_numbers() -> None:
    for parse in (name_and_version.parse_version_numbers, version_ranges.parse_numbers):
        assert sorted(sorted(IN_ORDER), key=parse) == IN_ORDER
    assert name_and_version.choose_newest(["9.7.0", "26.7.0", "26.10.0", "8.0.33"]) == "26.10.0"


@pytest.mark.parametrize("version", CALENDAR)
def test_they_have_nothing_of_older_releases(version: str) -> None:
    newest = describe_family("mysql")
    assert describe_family("mysql", version) == describe_family("mysql", f"{version}-x") == newest
    assert version_ranges.is_in_any(version, ["9.7-"])
    assert not version_ranges.is_in_any(version, ["-9.7"])


def test_a_series_is_year_and_month() -> None:
    assert name_and_version.is_version_of("26.7", "26.7.0.1")
    assert not name_and_version.is_version_of("26.1", "26.10.0")
    assert client_programs.find_series("based on MySQL server 26.10.0.1 ") == "26.10"
    groups = option_files.list_groups(
        option_files.OptionFileRules(mariadb=False, version="26.10", directories=()), ""
    )
    assert "mysqld-26.10" in groups

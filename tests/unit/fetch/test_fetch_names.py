"""What can be asked of dballoc fetch, and what each name means."""

import pytest

from dballoc import catalogue
from dballoc.fetch import fetch_one, fetch_sources, name_and_version
from dballoc.ground.errors import UsageError


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("jemalloc", ("jemalloc", None)),
        ("jemalloc@5.2.1", ("jemalloc", "5.2.1")),
        ("mysql@8.0.33", ("mysql", "8.0.33")),
    ],
)
def test_name_and_version(words: str, parts: tuple[str, str | None]) -> None:
    assert name_and_version.split_reference(words) == parts


@pytest.mark.parametrize(
    "words", ["jemalloc@", "jemalloc@../x", "mysql@-1", "mysql@8.0/33", "a@b@c"]
)
def test_what_is_no_version(words: str) -> None:
    with pytest.raises(UsageError, match="is not a version; write NAME@VERSION"):
        name_and_version.split_reference(words)


@pytest.mark.parametrize(
    ("asked", "version", "fits"),
    [
        ("5.5", "5.5.34", True), ("5.5.34", "5.5.34", True), ("5.5", "5.50.1", False), ("5.5", "5.5-log", True),
        ("5.5.34", "5.5", False), ("2.1", "2.10", False), ("11.8", "11.8.6", True),
    ],
)  # fmt: skip
def test_a_version_stands_for_its_line(asked: str, version: str, fits: bool) -> None:
    assert name_and_version.is_version_of(asked, version) is fits


def test_versions_are_sorted_as_numbers() -> None:
    assert name_and_version.choose_newest(["2.9", "2.18.1", "2.10"]) == "2.18.1"
    assert name_and_version.choose_newest([]) is None


def test_a_name_alone_is_its_first_source() -> None:
    assert fetch_sources.find_source("mariadb").reference == "mariadb@11.8"


def test_a_line_is_its_newest_source() -> None:
    assert fetch_sources.find_source("mimalloc@3").version == "3.6.0"


def test_a_moving_source_may_be_asked_for_what_it_gives_today() -> None:
    assert fetch_sources.find_source("mariadb@11.8.6").version == "11.8"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("jemaloc", "no server or allocator 'jemaloc'; did you mean 'jemalloc'?"),
        ("jemalloc@1.0", "'jemalloc@1.0': no source has that version; there are 5.3.0, 5.2.1, 5.3.1, 5.1.0, 4.5.0; "
                         "give an archive of its sources with --from and --sha256, or its library by path: preload = [PATH] in a variant"),
        ("mysql@8.4", "'mysql@8.4': no source has that version"),
    ],
)  # fmt: skip
def test_what_no_source_has(words: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        fetch_sources.find_source(words)
    assert str(caught.value).startswith(message)


def test_every_source_can_be_brought() -> None:
    known = {**catalogue.servers(), **catalogue.allocators()}
    for each in fetch_sources.list_all_sources():
        assert each.name in known
        assert each.client in fetch_one.CLIENTS
        assert each.download > 0 < each.room
        name_and_version.split_reference(each.reference)


PINNED = [s for s in fetch_sources.list_all_sources() if s.client != "debian"]


@pytest.mark.parametrize("each", PINNED, ids=[s.reference for s in PINNED])
def test_what_does_not_move_is_pinned(each: fetch_sources.FetchSource) -> None:
    assert len(each.row["sha256"]) == 64
    assert "moves" not in each.row


def test_a_suite_moves() -> None:
    assert all(s.row["moves"] for s in fetch_sources.list_all_sources() if s.client == "debian")


def test_what_is_for_another_machine_is_refused_before_the_download() -> None:
    source = fetch_sources.FetchSource(
        name="mysql", version="8.0.33", row={"from": "maven", "machine": "x86_64"}
    )
    fetch_one.check_machine(source, "x86_64")
    with pytest.raises(UsageError, match="the download is for x86_64, and this machine is aarch64"):
        fetch_one.check_machine(source, "aarch64")
    fetch_one.check_machine(
        fetch_sources.FetchSource(name="mysql", version="1", row={"from": "debian"}), "aarch64"
    )


def test_a_download_of_one_machine_says_which() -> None:
    rows = [row for versions in catalogue.sources().values() for row in versions.values()]
    of_one = [row for row in rows if row["from"] in ("maven", "pypi")]
    assert of_one
    assert {row["machine"] for row in of_one} == {"x86_64"}

"""Which servers start on the data that another one left, and how many copies there are at once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.trial.data_copies import DataCopies
from dballoc.experiment.experiment_file import build_experiment
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import workload

USER = ServerUser(None)
LOG = Path("copy.log")


class _Template:
    """Counts its copies."""

    def __init__(self, name: str) -> None:
        self.data = Path(name)
        self.copied = 0

    def copy(self, custody: Any, target: Path, log: Path, user: Any) -> None:
        target.mkdir()
        self.copied += 1


def variant(options: dict[str, str]) -> Any:
    return SimpleNamespace(build=SimpleNamespace(executable="/usr/sbin/mysqld"), options=options)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path))
    return tmp_path


def make_copies(again: bool = True, most: int = 2) -> DataCopies:
    return DataCopies(SimpleNamespace(scratch=lambda path: None), USER, again, most)  # type: ignore[arg-type]


def use(copies: DataCopies, template: Any, prepared: Any) -> Any:
    copy = copies.take(template, prepared)
    copies.fill(copy, template, LOG)
    return copy


def test_what_a_server_left_unchanged_is_used_again() -> None:
    copies, template = make_copies(), _Template("a")
    first = use(copies, template, variant({}))
    copies.give_back(first, unchanged=True)
    assert use(copies, template, variant({})) == first
    assert template.copied == 1


def test_who_asks_first_has_no_copy_of_its_own() -> None:
    """The baseline's server asks first in every block."""
    copies, template = make_copies(most=6), _Template("a")
    firsts = []
    for _ in range(60):
        taken = [use(copies, template, variant({})) for _ in range(6)]
        firsts.append(taken[0])
        for copy in taken:
            copies.give_back(copy, unchanged=True)
    assert template.copied == 6
    assert len(set(firsts)) == 6


@pytest.mark.parametrize(
    ("options", "name"),
    [({}, "ib_buffer_pool"), ({"innodb_buffer_pool_filename": "pages"}, "pages")],
)
def test_what_a_server_noted_of_its_pool_is_not_for_the_next(
    options: dict[str, str], name: str
) -> None:
    copies, template = make_copies(), _Template("a")
    first = use(copies, template, variant(options))
    (first.data / name).write_text("0,7\n")
    (first.data / "ibdata1").touch()
    copies.give_back(first, unchanged=True)
    assert use(copies, template, variant(options)) == first
    assert [path.name for path in first.data.iterdir()] == ["ibdata1"]


def test_a_copy_whose_note_cannot_be_removed_is_not_used_again(cache: Path) -> None:
    template = _Template(str(cache / "template"))
    for options, make in (
        ({"innodb_buffer_pool_filename": "/tmp/pages"}, lambda copy: None),
        ({}, lambda copy: (copy.data / "ib_buffer_pool").mkdir()),
    ):
        copies = make_copies()
        first = use(copies, template, variant(options))
        make(first)
        copies.give_back(first, unchanged=True)
        assert not first.scratch.exists()


@pytest.mark.parametrize(("again", "unchanged"), [(True, False), (False, True)])
def test_what_a_server_may_have_changed_is_removed(again: bool, unchanged: bool) -> None:
    copies, template = make_copies(again), _Template("a")
    first = use(copies, template, variant({}))
    copies.give_back(first, unchanged=unchanged)
    assert not first.scratch.exists()
    assert use(copies, template, variant({})).scratch != first.scratch
    assert template.copied == 2


def test_both_servers_of_a_duet_have_their_own() -> None:
    copies, template = make_copies(), _Template("a")
    both = [use(copies, template, variant({})) for _ in range(2)]
    assert both[0].scratch != both[1].scratch


@pytest.mark.parametrize("most", [1, 2])
def test_there_are_no_more_at_once_than_the_disk_was_checked_for(cache: Path, most: int) -> None:
    copies = make_copies(most=most)
    for number in range(4):
        both = [use(copies, _Template("a"), variant({"o": str(number)})) for _ in range(most)]
        assert len(list((cache / "scratch").iterdir())) == most
        for copy in both:
            copies.give_back(copy, unchanged=True)


READ_ONLY: dict[str, Any] = {
    "baseline": "glibc",
    "workloads": ["oltp_read_only"],
    "threads": [4],
    "variant": [{"name": "glibc"}],
}


@pytest.mark.parametrize(
    ("changes", "engine", "reused"),
    [
        ({}, "innodb", True),
        ({"workloads": ["oltp_read_only", "oltp_point_select"]}, "innodb", True),
        ({"workloads": ["oltp_read_only", "oltp_update_index"]}, "innodb", False),
        ({"warm": ["oltp_read_write"]}, "innodb", False),
        ({"sequence": "fresh"}, "innodb", False),
        ({"warmup_sql": ["DELETE FROM sbtest1"]}, "innodb", False),
        ({"warmup_sql": []}, "innodb", True),
        ({"warmup_sql": "scan", "warm": ["oltp_read_only"]}, "innodb", True),
        ({}, "rocksdb", False),
        ({"data": {"sql": ["mine.sql"]}}, "innodb", False),
        ({"workloads": ["load"]}, "innodb", False),
        ({"workloads": ["tpcc"]}, "innodb", False),
    ],
)
def test_which_campaigns_use_data_again(changes: dict, engine: str, reused: bool) -> None:
    setting = SimpleNamespace(
        experiment=build_experiment(READ_ONLY | changes, "here"),
        sysbench=SimpleNamespace(workload=workload.of_catalogue),
        variants={"glibc": SimpleNamespace(server=SimpleNamespace(engine=engine))},
    )
    assert PreparedCampaign.reuses_data.fget(setting) == reused  # type: ignore[attr-defined]

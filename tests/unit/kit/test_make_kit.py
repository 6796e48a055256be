"""What a kit is made for, and what it says of itself."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import dballoc
from dballoc.cli.kit_verbs.make import read_for_elsewhere
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.kit import make_kit
from dballoc.kit.fill_store import CarriedPart


def build(*mallocs: str) -> Experiment:
    table: dict[str, Any] = {
        "name": "e",
        "baseline": "glibc",
        "workloads": ["oltp_read_only"],
        "threads": [1],
        "variant": [{"name": name, "allocator": name} for name in ("glibc", *mallocs)],
    }
    return experiment_file.build_experiment(table, "e")


def test_what_a_long_budget_needs_is_carried_where_it_is_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def choose(experiments: Iterable[Experiment]) -> list[str]:
        names = [variant.name for each in experiments for variant in each.variant]
        if "absent" in names:
            raise UsageError("allocator 'absent' is not on this machine")
        return names

    monkeypatch.setattr(make_kit, "choose_parts", choose)
    lines: list[str] = []
    source = make_kit.KitSource(text="", experiment=build(), longer=build("mimalloc"))
    assert make_kit._choose_parts(source, lines.append) == ["glibc", "glibc", "mimalloc"]
    assert lines == []
    source = make_kit.KitSource(text="", experiment=build(), longer=build("absent"))
    assert make_kit._choose_parts(source, lines.append) == ["glibc"]
    assert lines == ["not for long budgets: allocator 'absent' is not on this machine"]


def test_kit_json_tells_versions_and_hashes() -> None:
    part = CarriedPart(
        kind="allocator",
        name="jemalloc",
        version="5.3.0",
        sha256="a" * 64,
        bytes=9,
        entry="jemalloc@5.3.0",
        origins=(Path("/x"),),
    )
    kit = json.loads(make_kit.describe_kit(build(), [part], 1_000_000_000))
    assert (kit["dballoc"], kit["made"], kit["experiment"]) == (
        dballoc.__version__,
        "2001-09-09T01:46:40Z",
        "e",
    )
    assert kit["identity"] == experiment_file.compute_identity(build())
    assert kit["parts"] == [
        {
            "kind": "allocator", "name": "jemalloc", "version": "5.3.0", "sha256": "a" * 64, "bytes": 9, "entry": "jemalloc@5.3.0",
        }
    ]  # fmt: skip


def test_relative_paths_are_made_absolute_and_all_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'workloads = ["./a.lua"]\n'
        'variant = [{name = "mine", preload = ["lib/mine.so"]}]\n'
        '[longer]\nfrom = "2h"\nworkloads = ["./b.sql"]\nthreads = [1, 64]\n'
    )
    table = experiment_file.parse_table(read_for_elsewhere(file), "there")
    assert table == {
        "workloads": ["a"],
        "workload": {"a": {"script": f"{tmp_path}/a.lua"}},
        "variant": [{"name": "mine", "preload": [f"{tmp_path}/lib/mine.so"]}],
        "longer": {
            "from": "2h",
            "workloads": ["b"],
            "workload": {"b": {"sql": f"{tmp_path}/b.sql"}},
            "threads": [1, 64],
        },
    }


def test_without_relative_paths_a_text_is_carried_byte_for_byte(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('# mine\nworkloads = ["/x/a.lua", "oltp_read_only"]\n[longer]\nfrom = "2h"\n')
    assert read_for_elsewhere(file) == file.read_text()

"""What a kit is made for, and what it says of itself."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import dballoc
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

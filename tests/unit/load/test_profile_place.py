"""Where a variant is profiled: the workload and the level that an experiment or a flag names."""

import pytest

from dballoc import catalogue
from dballoc.cli.shared import experiment_from_flags
from dballoc.experiment import experiment_file, scale, schedule
from dballoc.experiment.model import Experiment, parse_profile_place
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import is_profiled, plan_probe_steps, plan_steps
from dballoc.ground.errors import UsageError
from dballoc.load import workload

PLACE = {"workload": "oltp_read_only", "threads": 8}
ASKED = {
    "workloads": ["oltp_point_select", "oltp_read_only"],
    "threads": [1, 8, 16],
    "profile": "contention",
    "warmup_sql": [],
    "time": {"warmup": "1s", "level": "20s", "idle": "0s"},
}


def list_profiles(model: Experiment, number: int = 1) -> list[tuple[str, str, int | None]]:
    """Every profile of a block: variant, workload and clients."""
    return sorted(
        (slot.variant, step.workload or "", step.threads)
        for slot in schedule.order_block(model, number)
        for step in plan_steps(model, slot)
        if step.kind == "profile"
    )


EACH = [(name, "oltp_read_only", 8) for name in ("glibc", "jemalloc", "tuned")]


@pytest.mark.parametrize("levels", ["rising", "fresh"])
@pytest.mark.parametrize("sequence", ["cycle", "fresh"])
def test_each_variant_is_profiled_there_once(experiment, sequence: str, levels: str) -> None:
    model = experiment(**ASKED, profile_at=PLACE, sequence=sequence, levels=levels)
    assert list_profiles(model) == EACH
    assert list_profiles(model, 2) == []


def test_without_a_place_it_is_every_workload_at_the_highest_level(experiment) -> None:
    everywhere = [(v, w, 16) for v, _, _ in EACH for w in ("oltp_point_select", "oltp_read_only")]
    assert list_profiles(experiment(**ASKED)) == everywhere
    level = experiment(**ASKED, profile_at={"threads": 1})
    assert list_profiles(level) == [(v, w, 1) for v, w, _ in everywhere]


def test_a_heap_profile_is_taken_there_too(experiment) -> None:
    model = experiment(**ASKED | {"profile": "heap"}, profile_at=PLACE)
    slot = Slot(block=1, attempt=0, position=1, variant="glibc", role="A1")
    assert [step.title for step in plan_probe_steps(model, slot)] == [
        "warmup oltp_read_only 8",
        "profile oltp_read_only 8",
    ]
    fresh = experiment(**ASKED | {"profile": "heap"}, profile_at=PLACE, sequence="fresh")
    starts = [s.workload for s in schedule.order_block(fresh, 1) if is_profiled(fresh, s)]
    assert starts == ["oltp_read_only"] * 3


def test_scaling_keeps_it_at_one_of_the_levels(experiment) -> None:
    model = experiment(**ASKED | {"threads": [1, 256, 512]}, profile_at=PLACE | {"threads": 512})
    small = scale.scale_experiment(model, 0.1, {0, 1}, "x")
    assert small.profiled_level == scale.scale_level(512, 0.1) == small.threads[-1]
    assert list_profiles(small) == [(v, w, 288) for v, w, _ in EACH]


def test_a_place_that_cannot_be_is_one_line(experiment) -> None:
    def refuse(**changes: object) -> str:
        table = experiment(**ASKED).model_dump(mode="json", exclude_none=True) | changes
        with pytest.raises(UsageError) as refused:
            workload.settle(experiment_file.build_experiment(table, "x"))
        return str(refused.value)

    assert refuse(profile_at={"threads": 7}) == (
        "x: profile_at.threads: 7 is not one of the levels, 1, 8, 16"
    )
    assert refuse(profile_at={"workload": "oltp_insert"}) == (
        "profile_at.workload: 'oltp_insert' is not among the workloads that can be profiled: "
        "oltp_point_select, oltp_read_only"
    )
    assert "unknown key profile_at.thread" in refuse(profile_at={"thread": 8})
    nothing = experiment(**ASKED).model_dump(mode="json", exclude_none=True)
    del nothing["profile"]
    with pytest.raises(UsageError, match=r"^x: profile_at: nothing is profiled; say what"):
        experiment_file.build_experiment(nothing | {"profile_at": PLACE}, "x")


@pytest.mark.parametrize(
    ("flags", "place"),
    [
        ({}, PLACE),
        ({"threads": [8]}, PLACE),
        ({"threads": [3]}, {"workload": "oltp_read_only"}),
        ({"workloads": ["oltp_insert"]}, {"threads": 8}),
        ({"workloads": ["oltp_insert"], "threads": [3]}, None),
        ({"profile_at": {"threads": 16}}, {"workload": "oltp_read_only", "threads": 16}),
        ({"threads": [3], "profile_at": {"threads": 3}}, PLACE | {"threads": 3}),
        ({"profile": "none"}, None),
    ],
)
def test_flags_that_leave_the_files_place_out_drop_it(flags: dict, place: dict | None) -> None:
    table = {"profile": "contention", "profile_at": PLACE, "workloads": ["w"], "threads": [8]}
    result = experiment_from_flags.overlay(table, flags)
    assert result.get("profile_at") == place
    assert result.get("profile") == (None if flags.get("profile") == "none" else "contention")
    assert table["profile_at"] == PLACE


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("oltp_read_only:512", {"workload": "oltp_read_only", "threads": 512}),
        ("a=1:2:3", {"workload": "a=1:2", "threads": 3}),
        ("oltp_read_only", {"workload": "oltp_read_only"}),
        (":512", {"threads": 512}),
    ],
)
def test_the_flag_names_a_workload_a_level_or_both(text: str, place: dict) -> None:
    assert parse_profile_place(text) == place


@pytest.mark.parametrize("text", ["", ":", "w:", "w:x", ":-1", "w:1.5", "w:" + "9" * 5000])
def test_another_form_of_the_flag_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--profile-at: .* is not of the form"):
        parse_profile_place(text)


def load_shipped(name: str) -> Experiment:
    return experiment_file.build_experiment(
        experiment_file.parse_table(catalogue.experiments()[name], name), name
    )


def test_mdev_38369_has_a_start_for_each_test_and_its_levels_back_to_back() -> None:
    model = load_shipped("mdev-38369")
    levels = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    slots = schedule.order_block(model, 2)
    assert len(slots) == 3 * 4  # tests, and the variants with the baseline twice
    for slot in slots:
        steps = plan_steps(model, slot)
        assert {(s.kind, s.workload, s.seconds) for s in steps} == {("level", slot.workload, 60.0)}
        assert [s.threads for s in steps] == levels
    assert list_profiles(model) == sorted((v.name, "oltp_read_only", 512) for v in model.variant)


def test_mdev_38369s_patch_leaves_filesort_alone() -> None:
    patched = load_shipped("mdev-38369").find("nt-heap-small-blocks")
    assert patched.server.options == {
        "query_alloc_block_size": "8192",
        "query_prealloc_size": "8192",
    }
    assert [text.partition(" ")[0] for text in patched.not_settable] == [
        "TMP_TABLE_BLOCK_SIZE",
        "TMP_TABLE_PREALLOC_SIZE",
        "SHOW_ALLOC_BLOCK_SIZE",
    ]


def test_mdev_38369s_options_survive_the_small_scale() -> None:
    model = load_shipped("mdev-38369")
    small = scale.scale_experiment(model, model.small or 1, {0, 1}, "x")
    assert small.server.options == model.server.options | {
        "innodb_buffer_pool_size": "1G",
        "innodb_log_file_size": "2G",
    }
    assert small.server.options["max_connections"] == "10000"
    hammerdb = load_shipped("mdev-38369-hammerdb")
    warehouses = scale.scale_experiment(hammerdb, 0.05, {0, 1}, "x").load.options["warehouses"]
    assert (hammerdb.load.options["warehouses"], warehouses) == ("40", "2")


def test_keys_of_today_leave_the_identity_of_older_experiments_alone(experiment) -> None:
    plain = experiment()
    assert experiment_file.compute_identity(plain) == experiment_file.compute_identity(
        plain.model_copy(update={"profile_at": None})
    )
    placed = experiment(**ASKED, profile_at=PLACE)
    assert experiment_file.compute_identity(placed) != experiment_file.compute_identity(
        experiment(**ASKED)
    )
    less = [{"name": "glibc", "not_settable": ["X"]}]
    assert experiment_file.compute_identity(
        experiment(variant=less)
    ) != experiment_file.compute_identity(experiment(variant=[{"name": "glibc"}]))

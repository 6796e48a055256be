"""What happens inside one trial, in order, read as a line of words."""

from dataclasses import replace

from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import plan_probe_steps, plan_steps, sum_planned_seconds

ONE_START = Slot(block=1, attempt=0, position=1, variant="glibc", role="A1")
TIMES = {"warmup": "5s", "level": "10s", "idle": "3s"}


def titles(model, slot: Slot = ONE_START) -> str:
    return ", ".join(step.title for step in plan_steps(model, slot))


def test_levels_rise_and_idle_comes_last(experiment) -> None:
    model = experiment(threads=[16, 1, 4], time=TIMES, data={"tables": 2})
    assert titles(model) == (
        "sql, sql, warmup oltp_read_only 1, level oltp_read_only 1, level oltp_read_only 4, "
        "level oltp_read_only 16, idle"
    )


def test_every_workload_has_its_own_warmup(experiment) -> None:
    model = experiment(
        workloads=["oltp_read_only", "oltp_insert"], threads=[2], time=TIMES, warmup_sql=[]
    )
    assert titles(model) == (
        "warmup oltp_read_only 2, level oltp_read_only 2, warmup oltp_insert 2, "
        "level oltp_insert 2, idle"
    )


def test_what_runs_before_a_workload_takes_the_place_of_its_own_warmup(experiment) -> None:
    model = experiment(
        workloads=["load", "oltp_insert", "oltp_read_only", "oltp_delete"],
        before={
            "oltp_insert": ["settle", "oltp_point_select"],
            "oltp_read_only": ["settle", "oltp_read_only"],
        },
        threads=[2, 4],
        time=TIMES | {"settle": "7s"},
        warmup_sql=[],
    )
    steps = plan_steps(model, ONE_START)
    assert titles(model) == (
        "level load 4, settle, warmup oltp_point_select 2, level oltp_insert 2, "
        "level oltp_insert 4, settle, warmup oltp_read_only 2, level oltp_read_only 2, "
        "level oltp_read_only 4, warmup oltp_delete 2, level oltp_delete 2, "
        "level oltp_delete 4, idle"
    )
    # Two settlings, three warm-ups, six levels, idling.
    assert sum_planned_seconds(steps) == 2 * 7 + 3 * 5 + 6 * 10 + 3
    assert [s.stored_kind for s in steps[:3]] == ["level", "sql", "warmup"]


def test_with_a_warmup_for_all_only_what_runs_before_is_left(experiment) -> None:
    model = experiment(
        workloads=["oltp_insert", "oltp_delete"],
        warm=["oltp_read_only"],
        before={"oltp_delete": ["settle"]},
        threads=[2],
        time=TIMES,
    )
    assert (
        titles(model)
        == "warmup oltp_read_only 2, level oltp_insert 2, settle, level oltp_delete 2, idle"
    )
    # It belongs to its workload, in a start of its own too.
    assert "settle" not in titles(model, replace(ONE_START, workload="oltp_insert"))


def test_a_fresh_start_runs_its_own_level_alone(experiment) -> None:
    model = experiment(threads=[1, 8], levels="fresh", time=TIMES, warmup_sql=[])
    assert (
        titles(model, replace(ONE_START, level=8))
        == "warmup oltp_read_only 8, level oltp_read_only 8, idle"
    )


def test_what_lasts_no_time_is_left_out(experiment) -> None:
    model = experiment(threads=[1], time={"warmup": "0s", "idle": "0s"}, warmup_sql=[])
    assert titles(model) == "level oltp_read_only 1"


def test_steps_are_numbered_from_one(experiment) -> None:
    steps = plan_steps(experiment(), ONE_START)
    assert [s.number for s in steps] == list(range(1, len(steps) + 1))


def test_time_on_purpose_counts_loads_and_idling(experiment) -> None:
    # SQL takes as long as it takes: 5 + 2 * 10 + 3.
    assert sum_planned_seconds(plan_steps(experiment(threads=[1, 2], time=TIMES), ONE_START)) == 28


def test_the_warmup_scans_every_table_unless_told_otherwise(experiment) -> None:
    scans = [
        s.sql for s in plan_steps(experiment(data={"tables": 2}), ONE_START) if s.kind == "sql"
    ]
    assert scans == [
        "SELECT AVG(id) FROM sbtest1 FORCE KEY (PRIMARY)",
        "SELECT AVG(id) FROM sbtest2 FORCE KEY (PRIMARY)",
    ]
    own = plan_steps(experiment(warmup_sql=["SELECT 1"]), ONE_START)
    assert [s.sql for s in own if s.kind == "sql"] == ["SELECT 1"]


def test_the_load_comes_first_and_ends_by_itself(experiment) -> None:
    model = experiment(
        workloads=["load", "oltp_read_only"], threads=[1, 8], time=TIMES, data={"tables": 1}
    )
    assert titles(model) == (
        "level load 8, sql, warmup oltp_read_only 1, level oltp_read_only 1, "
        "level oltp_read_only 8, idle"
    )
    assert [s.seconds for s in plan_steps(model, ONE_START) if s.workload == "load"] == [0]


def test_a_scan_and_then_what_warms_the_server_up_once(experiment) -> None:
    model = experiment(
        workloads=["oltp_read_only", "oltp_point_select"],
        warm=["oltp_read_only"],
        warmup_sql="scan",
        threads=[8, 64],
        time=TIMES,
        data={"tables": 2},
    )
    assert titles(model) == (
        "sql, sql, warmup oltp_read_only 8, level oltp_read_only 8, level oltp_read_only 64, "
        "level oltp_point_select 8, level oltp_point_select 64, idle"
    )
    assert titles(model.model_copy(update={"warmup_sql": None})).startswith(
        "warmup oltp_read_only 8, "
    )


def test_the_experiment_says_what_warms_the_server_up(experiment) -> None:
    model = experiment(
        workloads=["oltp_insert", "oltp_delete"], warm=["oltp_read_only"], threads=[4], time=TIMES
    )
    assert (
        titles(model) == "warmup oltp_read_only 4, level oltp_insert 4, level oltp_delete 4, idle"
    )


def test_a_start_for_each_workload_runs_that_one_alone(experiment) -> None:
    model = experiment(
        workloads=["load", "oltp_insert"], sequence="fresh", threads=[4], time=TIMES, warmup_sql=[]
    )
    assert titles(model, replace(ONE_START, workload="load")) == "level load 4, idle"
    assert (
        titles(model, replace(ONE_START, workload="oltp_insert"))
        == "warmup oltp_insert 4, level oltp_insert 4, idle"
    )


def test_under_the_probe_nothing_is_measured(experiment) -> None:
    model = experiment(
        workloads=["load", "oltp_read_only"],
        threads=[1, 8],
        time=TIMES,
        data={"tables": 1},
        profile="heap",
    )
    steps = plan_probe_steps(model, ONE_START)
    assert [s.title for s in steps if s.kind != "sql"] == [
        "level load 8", "warmup oltp_read_only 8", "profile oltp_read_only 8",
    ]  # fmt: skip
    assert [s.number for s in steps] == list(range(1, len(steps) + 1))
    assert "profile" not in {s.kind for s in plan_steps(model, ONE_START)}


def test_without_sysbenchs_tables_there_is_nothing_to_scan(experiment) -> None:
    assert [
        s.kind for s in plan_steps(experiment(threads=[1], time=TIMES), ONE_START, tables=False)
    ] == ["warmup", "level", "idle"]

"""VSZ and %CPU: read, over a series, and in every form."""

import time
from dataclasses import replace
from typing import Any

from example_explanations import look
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dballoc.explain.difference import compare_explanations, compute_cpu_share, describe_vsz_and_cpu
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import charts, openmetrics
from dballoc.host.process.handle import Process, split_stat
from dballoc.process import smaps
from dballoc.process.read_limits import ReadBudget
from dballoc.process.usage import ProcessUsage, parse_usage, read_usage

GIB = 1 << 30
STAT = (
    "77 (my) (sqld 1 2) S 1 77 77 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 31 0 1000 2147483648 5 "
    + " ".join("0" * 28)
)


def usage(vsz: int = 4 * GIB, cpu: float = 10.0, running: float = 100.0) -> ProcessUsage:
    return ProcessUsage(vsz=vsz, reserved=0, cpu_seconds=cpu, running_seconds=running)


def used(taken: float, cpu: float, running: float, vsz: int = 4 * GIB) -> Explanation:
    return replace(look(taken=taken), usage=usage(vsz, cpu, running))


def test_a_name_with_parentheses_moves_no_field() -> None:
    assert parse_usage(split_stat(STAT), now=40.0, tick=100, reserved=5) == ProcessUsage(
        vsz=2147483648, reserved=5, cpu_seconds=3.0, running_seconds=30.0
    )


def test_the_share_is_that_of_ps() -> None:
    assert usage(cpu=25.0, running=100.0).cpu_share == 0.25
    assert usage(running=0.0).cpu_share == 0.0


def test_this_process() -> None:
    began = time.process_time()
    found = read_usage(Process.own(), smaps.read_smaps(Process.own(), ReadBudget()))
    assert found.vsz > 2**20
    assert 0 <= found.reserved < found.vsz
    # In ticks of the clock.
    assert found.cpu_seconds >= began - 0.05
    assert found.running_seconds > 0


def test_cpu_between_two_snapshots() -> None:
    first, last = used(1000.0, 10.0, 100.0), used(1010.0, 15.0, 110.0)
    assert compute_cpu_share(first, last) == 0.5
    assert "CPU 50.0 % now, 13.6 % since its start" in describe_vsz_and_cpu([first, last])
    # Another process of the same PID, an older snapshot, a moment.
    assert compute_cpu_share(first, used(1010.0, 15.0, 2.0)) is None
    assert compute_cpu_share(first, look(taken=1010.0)) is None
    assert compute_cpu_share(first, first) is None
    assert compute_cpu_share(last, first) is None


def test_words_of_one_snapshot() -> None:
    assert (
        describe_vsz_and_cpu([used(1.0, 10.0, 100.0)]) == "VSZ 4.00 GiB; CPU 10.0 % since its start"
    )
    assert describe_vsz_and_cpu([look()]) == ""
    much = replace(look(), usage=replace(usage(), reserved=3 * GIB))
    assert "VSZ 4.00 GiB (3.00 GiB of it reserved)" in describe_vsz_and_cpu([much])


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0, 2**57))
def test_words_of_any(cpu: float, running: float, vsz: int) -> None:
    first = replace(look(taken=1.0), usage=usage(vsz, cpu, running))
    last = replace(look(taken=2.0), usage=usage(vsz, cpu, running + 1))
    assert "\n" not in describe_vsz_and_cpu([first, last])


def test_a_difference_has_both() -> None:
    found = compare_explanations(used(1000.0, 10.0, 100.0), used(1010.0, 15.0, 110.0, 5 * GIB))
    assert found.as_json()["vsz"] == {"before": 4 * GIB, "after": 5 * GIB, "change": GIB}
    assert found.as_json()["cpu_share"] == 0.5
    assert compare_explanations(look(), look()).as_json()["vsz"] is None


def test_in_openmetrics() -> None:
    text = openmetrics.render_openmetrics(used(1000.0, 12.5, 100.0))
    families = {f.name: f for f in text_string_to_metric_families(text)}
    samples = {s.name: s.value for f in families.values() for s in f.samples if not s.labels}
    assert samples["dballoc_vsz_bytes"] == 4 * GIB
    assert samples["dballoc_vsz_reserved_bytes"] == 0
    assert samples["dballoc_cpu_seconds_total"] == 12.5
    assert samples["dballoc_cpu_ratio"] == 0.125
    assert samples["dballoc_running_seconds"] == 100.0
    assert families["dballoc_cpu_seconds"].type == "counter"
    assert "dballoc_vsz" not in openmetrics.render_openmetrics(look())


def list_values(chart: dict[str, Any]) -> list[float]:
    [rows] = chart["datasets"].values()
    return [row["value"] for row in rows]


def test_charts_over_time() -> None:
    series = [used(1000.0 + 10 * i, 10.0 + i * i, 100.0 + 10 * i, (4 + i) * GIB) for i in range(4)]
    vsz, cpu = charts.draw_vsz(series), charts.draw_cpu(series)
    assert vsz is not None
    assert cpu is not None
    assert list_values(vsz) == [4, 5, 6, 7]
    assert list_values(cpu) == [10, 30, 50]
    assert charts.draw_vsz(series[:1]) is None
    assert charts.draw_cpu(series[:2]) is None

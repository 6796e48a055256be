"""An explanation's other forms: saved and read back, compared, as OpenMetrics, as a page."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from example_explanations import KEYS, MIB, look
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dballoc.cli.explain_parts.text_plot import draw_plot
from dballoc.evidence.process.unwritten_huge_pages import HugePageSample
from dballoc.explain import explanation
from dballoc.explain.difference import compare_explanations
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.ledger_line import LIVE
from dballoc.explain.output import load_snapshots, openmetrics, page, saved_snapshots
from dballoc.explain.watch import WatchPace, compute_pause, thin_series, watch
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process

OWNERS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
LOOKS = st.builds(
    look,
    st.dictionaries(OWNERS, st.floats(0, 4096), max_size=5),
    st.floats(1e9, 2e9),
    st.integers(-(1 << 29), 1 << 30),
    huge=st.none()
    | st.builds(HugePageSample, st.integers(0, 1 << 40), st.just(1024), st.integers(0, 1024)),
)


@given(LOOKS, LOOKS)
def test_a_difference_adds_up_to_what_rss_changed(before: Explanation, after: Explanation) -> None:
    found = compare_explanations(before, after)
    assert sum(c.change for c in found.changes) == found.rss == after.ledger.rss - before.ledger.rss
    back = compare_explanations(after, before)
    assert {(c.group, c.owner): -c.change for c in found.changes} == {
        (c.group, c.owner): c.change for c in back.changes
    }


def test_what_grew_most_is_in_one_sentence() -> None:
    found = compare_explanations(look(taken=100), look({LIVE: 140, KEYS: 20}, taken=700))
    assert (
        found.sentence
        == "RSS grew by 120 MiB in 10 min; most of it is live heap, small blocks, 100 MiB (83 %)."
    )
    assert found.as_json()["rss"]["change"] == 120 * MIB
    assert compare_explanations(look({LIVE: 140}), look()).sentence.startswith(
        "RSS shrank by 100 MiB; most of it is live heap"
    )


def test_a_line_that_changed_by_more_than_rss_is_named_with_what_hid_it() -> None:
    before, after = look({LIVE: 400}), look({LIVE: 140, KEYS: 250})
    sentence = compare_explanations(before, after).sentence
    [shrank] = re.findall(r"live heap, small blocks shrank by (\d+) MiB", sentence)
    [grew] = re.findall(r"key cache.* grew by (\d+) MiB", sentence)
    assert sentence.startswith("RSS shrank by 10.0 MiB: ")
    assert (int(shrank), int(grew)) == (260, 250)
    assert compare_explanations(after, before).sentence.startswith(
        "RSS grew by 10.0 MiB: live heap"
    )


@given(LOOKS, LOOKS)
def test_no_share_in_the_sentence_is_more_than_all(before: Explanation, after: Explanation) -> None:
    sentence = compare_explanations(before, after).sentence
    shares = [int(share) for share in re.findall(r"\((\d+) %\)", sentence)]
    assert all(share <= 100 for share in shares)
    assert ("most of it" in sentence) == any(share > 50 for share in shares) or shares == [50]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(found=LOOKS)
def test_a_saved_look_reads_back(tmp_path: Path, name: str, found: Explanation) -> None:
    saved_snapshots.save_snapshot(found, tmp_path / name)
    assert load_snapshots.load_series(tmp_path / name) == [found]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_series_reads_back_without_what_a_kill_cut_off(tmp_path: Path, name: str) -> None:
    looks = [look(taken=1e9 + i) for i in range(3)]
    for i, found in enumerate(looks):
        saved_snapshots.append_snapshot(found, tmp_path / name, first=i == 0)
    assert load_snapshots.load_series(tmp_path / name) == looks
    if name.endswith("l"):
        whole = (tmp_path / name).read_text()
        (tmp_path / name).write_text(whole[:-100])
        assert load_snapshots.load_series(tmp_path / name) == looks[:2]


GOOD = saved_snapshots.make_document(look())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a snapshot"),
        (b"{}", "is not a snapshot"),
        (b"[1, 2]", "is not a snapshot"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"format": "dball', "is not a snapshot"),
        (
            json.dumps(GOOD | {"version": 99}).encode(),
            "version 99 of the format; this dballoc reads 1",
        ),
        (json.dumps(GOOD | {"version": "\n9"}).encode(), r"version '\n9' of the format"),
        (json.dumps(GOOD | {"rss": "much"}).encode(), "rss: "),
        (json.dumps({k: v for k, v in GOOD.items() if k != "room"}).encode(), "'room' is missing"),
        (json.dumps(GOOD | {"lines": [{"owner": 1}]}).encode(), "lines.0."),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UsageError) as refused:
        load_snapshots.load_series(tmp_path / "x")
    assert says in str(refused.value)
    assert str(tmp_path / "x") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_file_and_a_broken_gzip_are_one_line_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_snapshots.load_series(tmp_path / "none")
    (tmp_path / "x.gz").write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-20])
    with pytest.raises(UsageError, match=r"x\.gz: "):
        load_snapshots.load_series(tmp_path / "x.gz")
    with pytest.raises(Failure, match="No such file"):
        saved_snapshots.save_snapshot(look(), tmp_path / "none" / "x")


@given(LOOKS)
def test_openmetrics_reads_back(found: Explanation) -> None:
    said = openmetrics.render_openmetrics(found)
    families = {f.name: f for f in text_string_to_metric_families(said)}
    assert said.endswith("# EOF\n")
    memory = {
        (s.labels["group"], s.labels["owner"]): s.value
        for s in families["dballoc_memory_bytes"].samples
    }
    wanted: dict[tuple[str, str], int] = {}
    for line in found.ledger.lines:
        wanted[line.group, str(line.owner)] = (
            wanted.get((line.group, str(line.owner)), 0) + line.resident
        )
    assert memory == wanted
    assert families["dballoc_memory_bytes"].unit == "bytes"
    [rss], [rest] = (families[name].samples for name in ("dballoc_rss_bytes", "dballoc_rest_bytes"))
    assert sum(memory.values()) + rest.value == rss.value == found.ledger.rss
    assert {s.labels["key"] for s in families["dballoc_verdict"].samples} == {
        v.key for v in found.verdicts
    }


def test_a_page_is_self_contained_and_says_what_the_look_says() -> None:
    hostile = "</script><b>x</b>"
    series = [look({hostile: 5, LIVE: 40 + i}, taken=1e9 + 10 * i) for i in range(8)]
    text = page.render_explanation(series)
    assert "Most of the" in text
    assert "What changed" in text
    assert hostile not in text
    # Vega's code has addresses in its strings, of its own documentation.
    ours = re.sub(r"(?s)<script>.*?</script>", "", text)
    assert not re.search(r"(?:src|href)=[\"'](?!data:|#)", ours)
    data = json.loads(
        re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', text)[1]
    )  # type: ignore[index]
    assert set(data["figures"]) == {"series", "waterfall", "treemap", "bounds"}
    assert set(
        json.loads(re.search(r'id="data">(.*?)</script>', page.render_explanation(series[:1]))[1])[
            "figures"
        ]
    ) == {
        "waterfall",
        "treemap",
        "bounds",
    }  # type: ignore[index]


def test_a_waterfall_ends_where_rss_does() -> None:
    text = page.render_explanation([look(rest=-5 * MIB)])
    found = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])["figures"]["waterfall"]  # type: ignore[index]
    rows = (
        next(iter(found["datasets"].values())) if "datasets" in found else found["data"]["values"]
    )
    *steps, whole = rows
    assert [b["from"] for b in steps[1:]] == [a["to"] for a in steps[:-1]]
    assert steps[-1]["owner"] == "rest"
    assert steps[-1]["to"] == pytest.approx(whole["to"])


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(20, 200), st.integers(2, 12)
)
def test_a_plot_has_its_size_and_its_ends(values: list[float], width: int, height: int) -> None:
    lines = draw_plot([float(i) for i in range(len(values))], values, width, height, "MiB")
    assert len(lines) == height + 1
    assert all(len(line) <= max(width, 40) for line in lines)
    assert f"{max(values):,.1f} MiB" in lines[0]
    assert f"{min(values):,.1f} MiB" in lines[height - 1]


def test_looks_cost_no_more_than_their_share() -> None:
    assert compute_pause(5, 0.01, 0.01) == 5
    assert compute_pause(5, 0.2, 0.01) == pytest.approx(20)


def test_a_long_watch_keeps_few_looks_and_its_ends() -> None:
    looks = [look(taken=float(i)) for i in range(9)]
    assert thin_series(looks, 9) == looks
    assert [e.timestamp for e in thin_series(looks, 8)] == [0, 2, 4, 6, 8]


def test_what_the_function_takes_in_the_server_counts_in_the_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its threads may wait for it, whatever CPU we take ourselves."""
    monkeypatch.setattr(explanation, "explain", lambda *_, **__: replace(look(), within=3.0))
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return False

    [seen] = watch(
        Process.own(), lambda pid: explanation.explain(pid, None), WatchPace(5.0, None, 0.01), wait
    )
    assert seen.cost == pytest.approx(3.0, abs=0.5)
    # 3 s are a hundredth of 300.
    assert waited == [seen.pause]
    assert 290 < seen.pause < 360

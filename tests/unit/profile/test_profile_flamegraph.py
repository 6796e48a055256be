"""What stands in a page with a flame graph; tests/browser looks at it."""

import hashlib
import html
import json
import os
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from example_profiles import MIB, heap, profiles
from hypothesis import given, settings

from captured_run import run_captured
from dballoc.profile import flamegraph
from dballoc.profile.model import Frame, Profile, Sample, Value

STATIC = files("dballoc.profile") / "static"
EVIL = '</script><script>alert("out")</script><!--&amp;'


def data(text: str) -> list[dict[str, Any]]:
    found = re.findall(
        r'<script type="application/json" class="flame-data">(.*?)</script>', text, re.DOTALL
    )
    return [json.loads(html.unescape(part)) for part in found]


def near(numbers: Any) -> Any:
    """A page holds six digits."""
    return pytest.approx(numbers, rel=1e-5)


def test_the_libraries_are_what_their_licences_file_says() -> None:
    said = re.findall(
        r"^(\S+\.js): \S+ [\d.]+\nsha256 ([0-9a-f]{64})$",
        (STATIC / "LICENSES").read_text(),
        re.MULTILINE,
    )
    assert {name for name, _ in said} == {"d3.min.js", "d3-flamegraph.umd.min.js"}
    for name, digest in said:
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert "Copyright 2010-2026 Mike Bostock" in (STATIC / "LICENSES").read_text()
    assert "Apache License" in (STATIC / "LICENSES").read_text()


def test_libraries_of_another_hash_are_not_taken(tmp_path: Path) -> None:
    """npm, or what stands for it, has something else under the version."""
    tool = tmp_path / "tools" / "refresh-flamegraph-library"
    static = tmp_path / "src/dballoc/profile/static"
    programs = tmp_path / "bin"
    for directory in (tool.parent, static, programs):
        directory.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[3] / "tools" / tool.name, tool)
    (programs / "npm").write_text("#!/bin/sh\ntar -czf x.tgz -C / etc/hostname\necho x.tgz\n")
    (programs / "npm").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    done = run_captured([tool], env={**os.environ, "PATH": path})
    assert done.returncode == 1
    assert re.fullmatch(r"refresh-\S+: npm's d3 \S+ is sha512-\S+ and not \S+; .*\n", done.stderr)
    assert list(static.iterdir()) == []


def test_nothing_of_ours_ends_the_element_that_it_stands_in() -> None:
    for name in (
        "d3.min.js",
        "d3-flamegraph.umd.min.js",
        "flamegraph.js",
        "flamegraph.css",
        "page.css",
    ):
        text = (STATIC / name).read_text(encoding="utf-8").lower()
        assert not re.search(r"</(script|style)|<!--", text), name


def test_a_page_holds_every_profile() -> None:
    (found,) = data(
        flamegraph.render_page([("glibc", heap()), ("jemalloc", heap(leak=3))], "live", "Heap")
    )
    assert [view["name"] for view in found["views"]] == ["glibc", "jemalloc"]
    assert [view["nodes"][0] for view in found["views"]] == [
        near([0, -1, 7.5 * MIB]),
        near([0, -1, 11.5 * MIB]),
    ]
    names = [row[1] for row in found["names"]]
    first = [
        (level, names[name] if name >= 0 else None, width)
        for level, name, width in found["views"][0]["nodes"]
    ]
    assert [row[:2] for row in first[1:4]] == [(1, "main"), (2, "parse_sql"), (3, "Item::copy<…>")]
    assert [row[2] for row in first[1:4]] == near([7 * MIB, 6 * MIB, 4 * MIB])


def test_a_difference_has_both_sides_and_their_error() -> None:
    (found,) = data(flamegraph.render_difference_page(heap(), heap(leak=0), "live", "Heap"))
    views = {view["name"]: view["nodes"] for view in found["views"]}
    assert list(views) == ["after", "before", "what grew", "what shrank"]
    assert views["after"][0] == near([0, -1, 5.5 * MIB, 7.5 * MIB, 5.5 * MIB, 2 * MIB])
    assert views["what shrank"][0][2] == near(2 * MIB)
    assert [node[:3] for node in views["what grew"]] == [[0, -1, 0]]
    gone = next(i for i, row in enumerate(found["names"]) if row[0] == "mariadbd+0x1a2b")
    assert views["what shrank"][4] == near([4, gone, 2 * MIB, 2 * MIB, 0, 2**0.5 * MIB])


def test_a_difference_without_errors_says_none() -> None:
    (found,) = data(flamegraph.render_difference_page(heap(), heap(leak=3), "objects", "Objects"))
    assert found["views"][0]["nodes"][0][5] is None


def test_names_cannot_leave_their_place() -> None:
    frame = Frame(EVIL, EVIL, file=EVIL)
    profile = Profile(
        title=EVIL,
        values=(Value("live", "bytes", EVIL),),
        samples=[Sample((frame,), (5.0,), labels={EVIL: EVIL})],
        facts={EVIL: EVIL},
    )
    for text in (
        flamegraph.render_page([(EVIL, profile)] * 2, "live", EVIL),
        flamegraph.render_difference_page(profile, profile, "live", EVIL),
    ):
        assert "alert(" not in re.sub(r"alert\(&#34;|alert\(\\&#34;|alert\(\\\"", "", text)
        assert text.count("</script>") == 4
        assert data(text)[0]["names"][0][0] == EVIL


def test_fragments_share_the_library() -> None:
    parts = [
        flamegraph.render_fragment([("a", heap())], "live", "A"),
        flamegraph.render_difference_fragment(heap(), heap(2), "live", "B"),
    ]
    assert all(len(part) < 10_000 for part in parts)
    assert len(flamegraph.render_library()) > 250_000
    assert len(data("".join(parts))) == 2


def test_a_profile_of_very_many_stacks_makes_no_large_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flamegraph, "_MAX_FRAMES", 1000)
    samples = [
        Sample((Frame("main"), Frame(f"f{i}"), Frame(f"g{i % 7}")), (1.0 + i % 3,))
        for i in range(2000)
    ]
    profile = Profile(title="p", values=(Value("live", "bytes", "b"),), samples=samples)
    (found,) = data(flamegraph.render_page([("p", profile)], "live", "p"))
    (view,) = found["views"]
    assert len(view["nodes"]) == 1000
    assert view["leftOut"] + len(view["nodes"]) == 4002


def test_a_very_deep_stack_is_written() -> None:
    profile = Profile(
        title="p",
        values=(Value("live", "bytes", "b"),),
        samples=[Sample(tuple(Frame(f"f{i}") for i in range(3000)), (1.0,))],
    )
    (found,) = data(flamegraph.render_page([("p", profile)], "live", "p"))
    assert found["views"][0]["nodes"][-1][0] == 3000


@settings(max_examples=30)
@given(before=profiles(), after=profiles())
def test_any_two_profiles_make_a_page(before: Profile, after: Profile) -> None:
    (found,) = data(flamegraph.render_difference_page(before, after, "v0", "t"))
    for view in found["views"]:
        path: list[float] = []
        for level, _, width, *_ in view["nodes"]:
            assert level <= len(path)
            assert not level or width <= path[level - 1] * (1 + 1e-5)
            path[level:] = [width]


def cells(text: str) -> dict[str, list[list[str]]]:
    """The tables below a flame graph: heading -> rows."""
    found = {}
    for part in text.split("<details")[1:]:
        rows = [
            re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            for row in re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)
        ]
        found[html.unescape(re.findall(r"<summary>(.*?)</summary>", part)[0])] = [
            [html.unescape(c) for c in row] for row in rows
        ]
    return found


def test_a_page_has_its_figures_as_tables_too() -> None:
    tables = cells(
        flamegraph.render_page([("glibc", heap()), ("jemalloc", heap(leak=3))], "live", "Heap")
    )
    assert list(tables) == [
        "glibc: functions",
        "glibc: call stacks",
        "jemalloc: functions",
        "jemalloc: call stacks",
        "How it was measured",
    ]
    assert tables["glibc: functions"][2] == ["main", "7 MiB", "93.3%", "0 B", "mariadbd"]
    assert tables["glibc: call stacks"][1] == [
        "Item::copy<…> ← parse_sql ← main",
        "4 MiB",
        "1 MiB",
        "53.3%",
    ]


def test_a_leak_is_the_first_line_of_a_difference() -> None:
    tables = cells(flamegraph.render_difference_page(heap(), heap(leak=3), "live", "Heap"))
    assert tables["What grew, by call stack"] == [
        ["", "difference", "± standard error", "before", "after"],
        ["mariadbd+0x1a2b ← parse_sql ← parse_sql ← main", "+4 MiB", "1.41 MiB", "2 MiB", "6 MiB"],
    ]
    assert not any(name.startswith("What shrank") for name in tables)
    without = cells(flamegraph.render_difference_page(heap(), heap(leak=0), "live", "Heap"))
    assert list(without) == [
        "What shrank, by call stack",
        "What shrank, by function",
        "How it was measured",
    ]

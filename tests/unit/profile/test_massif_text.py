"""Heap profiles printed as ms_print prints a massif.out: by the letter, and beside ms_print."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from example_profiles import ITEM, MAIN, MALLOC, MIB, heap, profiles
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.cli.profile_verbs import heap as heap_verb
from dballoc.cli.profile_verbs import massif as verb
from dballoc.ground.errors import UsageError
from dballoc.profile.formats import massif, massif_text
from dballoc.profile.formats.massif import MassifOptions, build_massif_run
from dballoc.profile.formats.profile_file import save_profile
from dballoc.profile.model import Frame, Profile, Sample, Value

LIVE = (Value("live", "bytes", "live bytes"), Value("allocated", "bytes", "bytes allocated"))
CHANGE = """\
+10,485,760B (6,815,744B, then 17,301,504B) all
->+12,582,912B (2,097,152B, then 14,680,064B) 0x1a2b: ??? (in mariadbd)
| ->+12,582,912B (2,097,152B, then 14,680,064B) 0x0: parse_sql(THD*, Parser_state*) (in mariadbd)
|   ->+12,582,912B (2,097,152B, then 14,680,064B) 0x0: parse_sql(THD*, Parser_state*) (in mariadbd)
|     ->+12,582,912B (2,097,152B, then 14,680,064B) 0x0: main (main.cc:25)
->-2,097,152B (3,145,728B, then 1,048,576B) 0x0: main (main.cc:25)
"""
TABLE = """\
--------------------------------------------------------------------------------
  n       time(ms)         total(B)   useful-heap(B) extra-heap(B)    stacks(B)
--------------------------------------------------------------------------------
  0              0        1,048,576        1,048,576             0            0
100.00% (1,048,576B) (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
->75.00% (786,432B) 0x0: g (in m)
| ->50.00% (524,288B) 0x0: f (in m)
| | \n\
| ->25.00% (262,144B) 0x0: h (in m)
|   \n\
->25.00% (262,144B) 0x0: main (in m)
  \n\
"""


def single(samples: list[tuple[str, float]], taken: float = 0.0, allocated: float = 0.0) -> Profile:
    """Stacks of functions, the outermost first, with their live bytes."""
    return Profile(
        title="heap of s (process 7)",
        values=LIVE,
        samples=[
            Sample((*(Frame(name, "m") for name in stack.split(" ")), MALLOC), (size, allocated))
            for stack, size in samples
        ],
        taken_at=taken,
    )


def render(series: list[Profile], **options: float | int | str) -> str:
    run = build_massif_run(series, "live", MassifOptions(**options))  # type: ignore[arg-type]
    return massif_text.render_massif(run)


def split_graph(text: str) -> tuple[list[str], str]:
    """The rows of the graph without the axis at their left, and what follows the graph."""
    graph, _, rest = text.partition("Number of snapshots")
    lines = graph.splitlines()
    return [line[6:] for line in lines[1:21]], rest


def test_a_table_and_a_tree_by_the_letter() -> None:
    profile = single([("f g", MIB / 2), ("h g", MIB / 4), ("main", MIB / 4)])
    assert render([profile]).endswith(TABLE)


def test_beside_ms_print(tmp_path: Path) -> None:
    if shutil.which("ms_print") is None:
        pytest.skip("MS_PRINT ITSELF IS NOT ASKED: apt-get install valgrind")
    waves = [3, 5, 4, 9, 2, 6, 6.01, 8, 7, 1, 0.2, 5, 20, 19, 3, 11]
    times = [0, 1, 1.5, 4, 4.01, 9, 11, 12, 20, 21, 22, 40, 41, 43, 44, 60]
    for count in (1, 2, 5, len(waves)):
        series = [
            heap(leak, taken=1000.0 + time)
            for leak, time in zip(waves[:count], times[:count], strict=True)
        ]
        file = tmp_path / "massif.out"
        file.write_bytes(massif.encode_massif(series, "live"))
        printed = subprocess.run(
            ["ms_print", file], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        # Behind what it says of itself.
        expected = printed.split("-" * 80 + "\n", 2)[2].lstrip("\n")
        assert render(series).rstrip() == expected.rstrip()


@settings(max_examples=40)
@given(st.lists(profiles(), min_size=1, max_size=4))
def test_any_profiles_make_a_graph_of_one_size(series: list[Profile]) -> None:
    sized = [replace(p, values=(Value("v", "bytes", "v"), *p.values[1:])) for p in series]
    text = massif_text.render_massif(build_massif_run(sized, "v", MassifOptions()))
    rows, rest = split_graph(text)
    assert {len(row) for row in rows} == {massif_text.WIDTH}
    assert rest.startswith(f": {len(series)}\n")
    massif_text.render_change(sized[0], sized[-1], "v", MassifOptions())


def test_marks_of_the_snapshots() -> None:
    series = [single([("f", 100.0 * (i + 1))], taken=float(i)) for i in range(12)]
    series.append(single([("f", 50.0)], taken=12.0))
    rows, rest = split_graph(render(series))
    assert " Detailed snapshots: [9, 11 (peak), 12]" in rest
    assert "#" in rows[0]
    assert {":", "@", "#"} <= set("".join(rows))


def test_depth_and_threshold_cut_the_tree() -> None:
    profile = single([("a b c", 900.0), ("x y", 60.0), ("z", 40.0)])
    text = render([profile], depth=2, threshold=0.05)
    assert "->90.00% (900B) 0x0: c (in m)\n| ->90.00% (900B) 0x0: b (in m)\n" in text
    assert "0x0: a (in m)" not in text
    assert "->04.00% (40B) in 1 place, below massif's threshold (5.00%)" in text
    assert "0x0: z (in m)" not in text


def test_functions_that_count_as_mallocs_own() -> None:
    profile = single([("main parse alloc_root my_malloc", 900.0), ("main my_malloc", 100.0)])
    text = render([profile], allocators=("my_*", "alloc_root"))  # type: ignore[arg-type]
    assert "->90.00% (900B) 0x0: parse (in m)" in text
    assert "my_malloc" not in text
    assert "->10.00% (100B) 0x0: main (in m)" in text


def test_a_tree_without_a_threshold_has_every_place() -> None:
    text = render([single([("a", 1e6), ("b", 1.0)])], threshold=0.0)
    assert "(1B) 0x0: b (in m)" in text


def test_time_in_bytes() -> None:
    series = [
        single([("f", 100.0)], taken=0.0, allocated=1000.0),
        single([("f", 300.0)], taken=9.0, allocated=2000.0),
        single([("f", 100.0)], taken=10.0, allocated=2000.0),
    ]
    run = build_massif_run(series, "live", MassifOptions(time_unit="B"))
    # 1,000 B came and 800 of them went; then 200 more went.
    assert [snapshot.time for snapshot in run.snapshots] == [0, 1800, 2000]
    assert "time(B)" in massif_text.render_massif(run)
    with pytest.raises(ValueError, match="reset between"):
        render([series[1], replace(series[0], taken_at=20.0)], time_unit="B")
    with pytest.raises(ValueError, match="know what was allocated"):
        render([heap()], time_unit="B")


@pytest.mark.parametrize(
    ("amount", "units", "said"),
    [
        (0, massif_text.BYTES, ("0", "B")),
        (999, massif_text.BYTES, ("999", "B")),
        (20_101, massif_text.BYTES, ("19.63", "KB")),
        (9_961_472, massif_text.BYTES, ("9.500", "MB")),
        (1500, massif_text.MILLISECONDS, ("1.500", "s")),
        (90_000, massif_text.MILLISECONDS, ("90.00", "s")),
        (9_000_000, massif_text.MILLISECONDS, ("2.500", "h")),
    ],
)
def test_scales(amount: int, units: tuple[massif_text.Unit, ...], said: tuple[str, str]) -> None:
    assert massif_text.scale_amount(amount, units) == said


def test_what_changed_between_two_snapshots() -> None:
    def made(static: float, main: float) -> Profile:
        profile = heap(static)
        kept = [s for s in profile.samples if s.stack[-2] not in (ITEM, MAIN) and not s.truncated]
        low = Sample((MAIN, MALLOC), (main * MIB, 0.0, 1.0, 0.0))
        same = Sample((MAIN, ITEM, MALLOC), (1.5 * MIB, 0.0, 1.0, 0.0))
        return replace(profile, samples=[kept[-1], low, same])

    lines = massif_text.render_change(made(1, 3), made(7, 1), "live", MassifOptions())
    assert "\n".join(lines) + "\n" == CHANGE


def test_what_one_caller_grew_by_does_not_hide_what_another_shrank_by() -> None:
    before, after = (
        single([("a f", 900.0), ("b f", 100.0)]),
        single([("a f", 100.0), ("b f", 900.0)]),
    )
    lines = massif_text.render_change(before, after, "live", MassifOptions())
    assert lines[1] == "->+0B (1,000B, then 1,000B) 0x0: f (in m)"
    assert {line.split(" ")[2].removeprefix("->") for line in lines[2:]} == {"+800B", "-800B"}


def test_the_verb_prints_saved_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i, leak in enumerate((1.0, 3.0)):
        save_profile(heap(leak, taken=100.0 + 10 * i), tmp_path / f"{i}")
    verb.massif([tmp_path / "0", tmp_path / "1"])
    said = capsys.readouterr().out
    assert " Detailed snapshots: [1 (peak)]" in said
    assert "From snapshot 0 to snapshot 1:\n+4,194,304B" in said
    assert "a snapshot every 10 s, not at each allocation" in said
    verb.massif([tmp_path / "0"])
    assert "one snapshot has no course over time" in capsys.readouterr().out
    with pytest.raises(UsageError, match="values in bytes, against a time in ms or B"):
        verb.massif([tmp_path / "0"], value="objects")


def test_a_hostile_name_stays_in_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_profile(single([("\x1b[31mred\u202e", 10.0)]), tmp_path / "p")
    verb.massif([tmp_path / "p"])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"as_massif": True, "as_json": True}, "--massif goes neither with --json nor with --by"),
        ({"as_massif": True, "by": "user"}, "--massif goes neither with --json nor with --by"),
        ({"depth": 3}, "--time-unit and --alloc-fn only go with --massif"),
        ({"allocators": ["my_malloc"]}, "--time-unit and --alloc-fn only go with --massif"),
    ],
)
def test_flags_that_do_not_fit(flags: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        heap_verb.heap_(**flags)  # type: ignore[arg-type]
    assert says in str(refused.value)

"""Profiles in other programs' formats, by the letter and in the programs themselves."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
from example_profiles import MIB, VALUES, heap, profiles
from hypothesis import given, settings

from captured_run import run_captured
from dballoc.profile import call_tree
from dballoc.profile.formats import export
from dballoc.profile.model import Frame, Profile, Sample, Value

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "speedscope-file-format-schema.json").read_text(
        encoding="utf-8"
    )
)

COLLAPSED = """\
[truncated];Item::copy<int>(List<Item> const&);malloc 524288
main;malloc 1048576
main;parse_sql(THD*, Parser_state*);Item::copy<int>(List<Item> const&);operator new(unsigned long);malloc 4194304
main;parse_sql(THD*, Parser_state*);parse_sql(THD*, Parser_state*);mariadbd+0x1a2b;malloc 2097152
"""

MASSIF = """\
desc: mariadbd 10.11
cmd: (profiled by dballoc)
time_unit: ms
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=9961472
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=peak
n3: 9961472 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n2: 4718592 0x0: Item::copy<int>(List<Item> const&) (in mariadbd)
  n1: 4194304 0x0: parse_sql(THD*, Parser_state*) (in mariadbd)
   n0: 4194304 0x0: main (main.cc:25)
  n0: 524288 0x0: [truncated] (in nowhere)
 n1: 4194304 0x1a2b: ??? (in mariadbd)
  n1: 4194304 0x0: parse_sql(THD*, Parser_state*) (in mariadbd)
   n1: 4194304 0x0: parse_sql(THD*, Parser_state*) (in mariadbd)
    n0: 4194304 0x0: main (main.cc:25)
 n0: 1048576 0x0: main (main.cc:25)
#-----------
snapshot=1
#-----------
time=1500
mem_heap_B=5767168
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=detailed
"""


def test_collapsed_by_the_letter() -> None:
    assert export.export_profiles(heap(), "live", "collapsed").decode() == COLLAPSED


def test_collapsed_has_seconds_as_microseconds_and_leaves_nothings_out() -> None:
    lines = export.export_profiles(heap(), "spent", "collapsed").decode().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["125000", "250000", "500000"]


@settings(max_examples=40)
@given(profile=profiles())
def test_collapsed_is_read_back(profile: Profile) -> None:
    value = profile.values[0]
    scale = 1e6 if value.unit == "seconds" else 1
    total = 0
    for line in export.export_profiles(profile, value.key, "collapsed").decode().splitlines():
        stack, number = re.fullmatch(r"(.+) (\d+)", line).groups()  # type: ignore[union-attr]
        assert all(stack.split(";"))
        total += int(number)
    # Each line is rounded.
    expected = sum(s.values[0] for s in profile.samples if s.stack) * scale
    assert total == pytest.approx(expected, rel=1e-9, abs=len(profile.samples))


@settings(max_examples=40)
@given(profile=profiles())
def test_speedscope_keeps_to_its_schema(profile: Profile) -> None:
    value = profile.values[-1].key
    document = json.loads(export.export_profiles(profile, value, "speedscope"))
    jsonschema.validate(document, SCHEMA)
    view = document["profiles"][document["activeProfileIndex"]]
    assert view["name"] == profile.values[-1].title
    assert sum(view["weights"]) == view["endValue"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert [[names[i] for i in stack] for stack in view["samples"]] == [
        [frame.function for frame in call_tree.list_frames(s)]
        for s in profile.samples
        if call_tree.list_frames(s) and s.values[-1] > 0
    ]


def test_massif_by_the_letter() -> None:
    first, second = heap(leak=2, taken=100.0), heap(leak=0, taken=101.5)
    # In whatever order they are given.
    written = export.export_profiles([second, first], "live", "massif").decode()
    assert written.startswith(MASSIF)
    # What holds nothing any more is no place.
    assert written[len(MASSIF) :].startswith("n2: 5767168 (heap")


def test_massif_counts_what_is_below_its_threshold() -> None:
    stacks = [Sample((Frame(f"small{i}"),), (1.0,)) for i in range(3)]
    profile = Profile(
        title="p",
        values=(Value("live", "bytes", "b"),),
        samples=[Sample((Frame("large"),), (997.0,)), *stacks],
    )
    lines = export.export_profiles(profile, "live", "massif").decode().splitlines()
    assert lines[-3:] == [
        "n2: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.",
        " n0: 997 0x0: large (in nowhere)",
        " n0: 3 in 3 places, all below massif's threshold (1.00%)",
    ]


def test_massif_is_for_bytes() -> None:
    with pytest.raises(ValueError, match="bytes"):
        export.export_profiles(heap(), "objects", "massif")


@settings(max_examples=40)
@given(profile=profiles())
def test_pprof_holds_together(profile: Profile) -> None:
    """Every number of a sample, location and function that is named is there."""
    fields = decoded(
        gzip.decompress(export.export_profiles(profile, profile.values[0].key, "pprof"))
    )
    strings = [bytes(data).decode() for data in fields[6]]
    assert strings[0] == ""
    locations = {ids(decoded(data)[1])[0]: decoded(data) for data in fields.get(4, [])}
    functions = {ids(decoded(data)[1])[0]: decoded(data) for data in fields.get(5, [])}
    modules = {ids(decoded(data)[1])[0] for data in fields.get(3, [])}
    assert len(fields.get(2, [])) == len(profile.samples)
    for data, sample in zip(fields.get(2, []), profile.samples, strict=True):
        names = []
        for location in packed(decoded(data).get(1, [b""])[0]):
            assert locations[location][2][0] in modules
            function = functions[decoded(locations[location][4][0])[1][0]]
            names.append(strings[function.get(2, [0])[0]])
        assert names == [frame.function for frame in reversed(call_tree.list_frames(sample))]
        assert len(packed(decoded(data)[2][0])) == len(profile.values)


def ids(values: list) -> list[int]:
    return [int(value) for value in values]


def decoded(data: bytes) -> dict[int, list]:
    """The fields of a message of protocol buffers: numbers and bytes."""
    fields: dict[int, list] = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value  # type: ignore[assignment]
        fields.setdefault(key >> 3, []).append(value)
    return fields


def packed(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = varint(data, at)
        numbers.append(number)
    return numbers


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def test_one_profile_where_the_format_holds_one() -> None:
    for name in export.FORMATS:
        if export.takes_many(name):
            assert export.export_profiles([heap(), heap()], "live", name)
        else:
            with pytest.raises(ValueError, match="one profile"):
                export.export_profiles([heap(), heap()], "live", name)


def test_no_such_value_in_any_format() -> None:
    for name in export.FORMATS:
        with pytest.raises(KeyError):
            export.export_profiles(heap(), "waited", name)


@given(profile=profiles())
@settings(max_examples=20)
def test_any_profile_goes_into_every_format_that_takes_its_unit(profile: Profile) -> None:
    for name in export.FORMATS:
        if name != "massif" or profile.values[0].unit == "bytes":
            assert isinstance(export.export_profiles(profile, profile.values[0].key, name), bytes)


@pytest.mark.slow  # go builds pprof where it has not yet
def test_pprof_reads_it(tmp_path: Path) -> None:
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("PPROF'S OWN READER IS NOT ASKED: no go here; apt-get install golang-go")
    file = tmp_path / "heap.pb.gz"
    file.write_bytes(export.export_profiles(heap(), "live", "pprof"))
    done = run_captured(
        [go, "tool", "pprof", "-top", "-nodecount=0", "-unit=MB", file],
        env={**os.environ, "PPROF_TMPDIR": str(tmp_path)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    rows = {
        row[-1]: row for line in done.stdout.splitlines() if len(row := line.split(maxsplit=5)) == 6
    }
    assert "Type: live" in done.stdout
    assert rows["malloc"][0] == "7.50MB"
    assert rows["main"][3] == "7MB"
    assert "mariadbd+0x1a2b" in done.stdout


def test_ms_print_reads_it(tmp_path: Path) -> None:
    if shutil.which("ms_print") is None:
        pytest.skip("MASSIF'S OWN READER IS NOT ASKED: no ms_print here; apt-get install valgrind")
    lambda_ = Sample((Frame("f()::{lambda()#1}"), Frame("malloc")), (3 * MIB, 0, 0, 0))
    series = [heap(leak, taken=1000.0 + i) for i, leak in enumerate((1, 5, 2))]
    series[1].samples.append(lambda_)
    for count in (1, 3):
        file = tmp_path / "massif.out"
        file.write_bytes(export.export_profiles(series[:count], "live", "massif"))
        done = run_captured(["ms_print", file], cwd=tmp_path, timeout=60)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        assert f"Number of snapshots: {count}" in done.stdout
    assert "Detailed snapshots: [1 (peak), 2]" in done.stdout
    assert re.search(r"->\d+\.\d+% \(10,485,760B\) 0x1a2b: \?\?\? \(in mariadbd\)", done.stdout)


def test_a_variance_is_no_value_of_an_export() -> None:
    assert VALUES[1].key == "live.variance"
    document = json.loads(export.export_profiles(heap(), "live", "speedscope"))
    assert [view["name"] for view in document["profiles"]] == [
        "live bytes",
        "live objects",
        "time in malloc",
    ]
    assert b"live.variance" not in gzip.decompress(export.export_profiles(heap(), "live", "pprof"))

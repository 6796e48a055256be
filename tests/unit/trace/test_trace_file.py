"""A trace's file: what is written is read, and nothing damaged, torn or made to harm is believed."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import zstandard
from example_recordings import make_recording, simulate
from example_traces_of_recordings import assert_equal_traces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.model import NONE, EventKind, Mark, ThreadEvents, Trace
from dballoc.trace.trace_file import layout
from dballoc.trace.trace_file.check_trace import InvalidTrace, check_trace
from dballoc.trace.trace_file.layout import BlockKind, pack_block
from dballoc.trace.trace_file.read_trace import (
    DamagedTrace,
    TraceLimits,
    parse_trace,
    read_trace,
    verify_trace,
)
from dballoc.trace.trace_file.varints import encode_varints
from dballoc.trace.trace_file.write_trace import number_by_thread, pack_trace, write_trace
from dballoc.trace.trace_size import explain_lack_of_memory

LIMITS = TraceLimits(events=10_000, threads=100, unpacked=2**24, runs=1000)
M, F = EventKind.MALLOC, EventKind.FREE


def pack(trace: Trace) -> bytes:
    return b"".join(pack_trace(trace))


def parse(data: bytes, limits: TraceLimits = LIMITS) -> Trace:
    return parse_trace(io.BytesIO(data), limits)


def small_trace(seed: int = 1) -> Trace:
    return compile_recording(simulate(seed, threads=3, calls=200).recording)


@given(
    seed=st.integers(0, 10**6),
    threads=st.integers(1, 5),
    step=st.sampled_from([0, 1, 40, 10**6]),
    resolution=st.sampled_from([1, 10, 1000]),
)
@settings(max_examples=60)
def test_what_is_written_is_read(seed: int, threads: int, step: int, resolution: int) -> None:
    simulation = simulate(seed, threads, calls=Random(seed).randrange(150), step=step)
    trace = compile_recording(simulation.recording, resolution)
    assert_equal_traces(parse(pack(trace)), trace)


def test_threads_of_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_ITEMS", 7)
    trace = small_trace()
    data = pack(trace)
    assert_equal_traces(parse(data), trace)


def test_a_trace_of_nothing_and_the_largest_numbers() -> None:
    nothing = compile_recording(make_recording())
    assert_equal_traces(parse(pack(nothing)), nothing)
    rows = [(EventKind.ALIGNED, 0, 2**60, 16, 0, 2**61, 2**31), (F, 2**60, 2**60, 16, 0, 0)]
    trace = compile_recording(make_recording(rows), resolution=1)
    assert_equal_traces(parse(pack(trace)), trace)


def test_objects_in_another_order_are_numbered_by_thread() -> None:
    trace = small_trace()
    count = len(trace.objects.size)
    new = np.random.default_rng(1).permutation(count)
    back = np.append(new, NONE)
    columns = {name: np.empty_like(column) for name, column in vars(trace.objects).items()}
    for name, column in vars(trace.objects).items():
        columns[name][new] = column
    shuffled = replace(
        trace,
        objects=type(trace.objects)(**columns),
        threads=tuple(
            replace(t, object=back[t.object], freed=back[t.freed]) for t in trace.threads
        ),
    )
    assert_equal_traces(number_by_thread(shuffled), trace)
    assert_equal_traces(parse(pack(shuffled)), trace)


def test_an_existing_file_is_replaced_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    write_trace(small_trace(1), path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write_trace(small_trace(2), tmp_path / "nowhere" / "a.trace")

    def broken(_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dballoc.trace.trace_file.write_trace.pack_trace", broken)
        with pytest.raises(UsageError, match="No space left"):
            write_trace(small_trace(2), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.trace"]


class TestDamage:
    def test_every_shorter_file_is_refused(self) -> None:
        data = pack(small_trace())
        for size in range(len(data)):
            with pytest.raises(DamagedTrace):
                parse(data[:size])
        with pytest.raises(DamagedTrace, match="follows its end"):
            parse(data + b"\0")

    def test_every_flipped_byte_is_noticed(self) -> None:
        data = pack(small_trace())
        for place in range(0, len(data), 7):
            with pytest.raises(DamagedTrace):
                parse(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])

    def test_verify_says_how_far_it_is_whole(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(layout, "MOST_ITEMS", 20)
        path = tmp_path / "a.trace"
        write_trace(small_trace(), path)
        whole = verify_trace(path)
        assert (whole.complaint, whole.events, whole.bytes) == ("", 200, path.stat().st_size)
        path.write_bytes(path.read_bytes()[:-100])
        torn = verify_trace(path)
        assert torn.complaint == "it is cut short"
        assert 0 < torn.events < torn.declared == 200
        assert torn.bytes < path.stat().st_size
        path.write_bytes(b"something else")
        assert verify_trace(path).bytes == 0

    def test_errors_name_the_file(self, tmp_path: Path) -> None:
        for path, reason in (
            (tmp_path / "none.trace", "cannot be read: No such file"),
            (tmp_path, "not a plain file"),
        ):
            with pytest.raises(UsageError, match=reason) as caught:
                read_trace(path)
            assert str(path) in str(caught.value)
        path = tmp_path / "a.trace"
        path.write_bytes(b"\x1f\x8b something else")
        with pytest.raises(UsageError, match=r"a\.trace: not a trace of dballoc"):
            read_trace(path)


def make_block(kind: int, content: bytes, items: int = 0, thread: int = 0, **claims: int) -> bytes:
    packed = zstandard.ZstdCompressor().compress(content)
    return pack_block(kind, thread, items, claims.get("unpacked", len(content)), packed)  # type: ignore[arg-type]


def make_header(**changes: object) -> bytes:
    rows = [
        {"number": 0, "name": "", "created_by": NONE, "ended": NONE, "events": 1, "allocations": 1}
    ]
    trace = compile_recording(make_recording())
    data = pack(trace)[len(layout.MAGIC) + layout.HEAD_BYTES :]
    header = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(data))
    return json.dumps({**header, "threads": rows, **changes}).encode()


def make_events(op: list[int], **columns: list[int]) -> bytes:
    parts = [
        encode_varints(np.array(columns.get(name, []), np.uint64))
        for name in ("delay", "span", "size", "alignment", "touch", "distance", "owner", "position")
    ]
    return np.array([len(p) for p in parts], "<u4").tobytes() + bytes(op) + b"".join(parts)


def make_file(header: bytes, *blocks: bytes) -> bytes:
    end = make_block(BlockKind.END, b"")
    return layout.MAGIC + make_block(BlockKind.HEADER, header) + b"".join(blocks) + end


def rows(*counts: tuple[int, int]) -> list[dict[str, object]]:
    return [
        {"number": i, "name": "", "created_by": NONE, "ended": NONE, "events": e, "allocations": a}
        for i, (e, a) in enumerate(counts)
    ]


def claim(
    *blocks: bytes, threads: Sequence[tuple[int, int]] = ((1, 1),), **header: object
) -> bytes:
    """A file whose header has these numbers of events and allocations of each thread."""
    return make_file(make_header(threads=rows(*threads), **header), *blocks)


ONE_MALLOC = make_block(BlockKind.EVENTS, make_events([M], delay=[1], size=[8]), items=1)


def events(op: list[int], thread: int = 0, **columns: int | list[int]) -> bytes:
    """A thread's block; a column of one number may be that number."""
    lists = {k: v if isinstance(v, list) else [v] for k, v in columns.items()}
    return make_block(BlockKind.EVENTS, make_events(op, **lists), len(op), thread)


HOSTILE = {
    "a header of something else": make_file(b"[]", ONE_MALLOC),
    "a header that is no text": make_file(b"\xff\xfe", ONE_MALLOC),
    "a deep header": make_file(b"[" * 100_000, ONE_MALLOC),
    "half a character": make_file(make_header().replace(b'"exit"', b'"\\ud800"'), ONE_MALLOC),
    "more events than allowed": claim(ONE_MALLOC, threads=[(10**9, 1)]),
    "more threads than allowed": claim(threads=[(0, 0)] * 101),
    "more allocations than events": claim(ONE_MALLOC, threads=[(1, 2)]),
    "fewer events than declared": claim(ONE_MALLOC, threads=[(9, 1)]),
    "fewer allocations than declared": claim(ONE_MALLOC, threads=[(1, 0)]),
    "patterns that are not there": claim(ONE_MALLOC, patterns=5),
    "no header": layout.MAGIC + ONE_MALLOC,
    "a second header": claim(make_block(BlockKind.HEADER, make_header())),
    "an unknown block": claim(make_block(9, b"")),
    "a block of too many events": claim(make_block(BlockKind.EVENTS, b"", items=2**32 - 1)),
    "a block that unpacks to more than it says": claim(
        make_block(BlockKind.EVENTS, bytes(10**6), items=1, unpacked=40)
    ),
    "a block that says it unpacks to much": claim(
        make_block(BlockKind.PATTERNS, b"", unpacked=2**31)
    ),
    "a thread that is not there": claim(events([M], thread=7, delay=1, size=8)),
    "threads out of order": claim(
        events([M], thread=1, delay=1, size=8),
        events([M], delay=1, size=8),
        threads=[(1, 1), (1, 1)],
    ),
    "an event of no kind": claim(events([0], delay=1, size=8)),
    "a kind beyond the last": claim(events([7], delay=1)),
    "an op with a spare bit": claim(events([M | 128], delay=1, size=8)),
    "a malloc that frees": claim(events([M | 8], delay=1, size=8, distance=0)),
    "a free with an alignment": claim(events([F | 64], delay=1, alignment=8), threads=[(1, 0)]),
    "a free of both kinds": claim(events([F | 24], delay=1), threads=[(1, 0)]),
    "a free before its allocation": claim(
        events([F | 8, M], delay=[1, 1], size=8, distance=0), threads=[(2, 1)]
    ),
    "a free of a negative block": claim(
        events([M, F | 8], delay=[1, 1], size=8, distance=2**64 - 1), threads=[(2, 1)]
    ),
    "a block freed twice": claim(
        events([M, F | 8, F | 8], delay=[1, 1, 1], size=8, distance=[0, 0]), threads=[(3, 1)]
    ),
    "a foreign free of its own": claim(
        events([M, F | 16], delay=[1, 1], size=8, owner=0, position=0), threads=[(2, 1)]
    ),
    "a foreign free of nobody": claim(
        events([M, F | 16], delay=[1, 1], size=8, owner=2**40, position=0), threads=[(2, 1)]
    ),
    "a foreign free beyond the last": claim(
        ONE_MALLOC,
        events([F | 16], thread=1, delay=5, owner=0, position=2),
        threads=[(1, 1), (1, 0)],
    ),
    "a foreign free before the first": claim(
        ONE_MALLOC,
        events([F | 16], thread=1, delay=5, owner=0, position=1),
        threads=[(1, 1), (1, 0)],
    ),
    "a foreign free too early": claim(
        ONE_MALLOC,
        events([F | 16], thread=1, delay=0, owner=0, position=0),
        threads=[(1, 1), (1, 0)],
    ),
    "a foreign free twice": claim(
        ONE_MALLOC,
        events([F | 16, F | 16], thread=1, delay=[5, 1], owner=[0, 0], position=[0, 0]),
        threads=[(1, 1), (2, 0)],
    ),
    "positions that wrap round": claim(
        ONE_MALLOC,
        events(
            [F | 16] * 3,
            thread=1,
            delay=[5, 1, 1],
            owner=[0] * 3,
            position=[2**64 - 1, 2**64 - 1, 2],
        ),
        threads=[(1, 1), (3, 0)],
    ),
    "a time beyond any clock": claim(events([M], delay=2**63, size=8)),
    "times that wrap round": claim(
        events([M, M], delay=[2**63, 2**63 + 1], size=[8, 8]), threads=[(2, 2)]
    ),
    "a block larger than memory": claim(events([M], delay=1, size=2**63)),
    "blocks that are together": claim(
        events([M] * 3, delay=[1] * 3, size=[2**61] * 3), threads=[(3, 3)]
    ),
    "an alignment of 33 bits": claim(events([M | 64], delay=1, size=8, alignment=2**32)),
    "a pattern that is not there": claim(events([M | 32], delay=1, size=8, touch=0)),
    "columns that are too long": claim(events([M], delay=1, size=[8, 9])),
    "columns that are too short": claim(events([M], delay=1)),
    "no columns": claim(make_block(BlockKind.EVENTS, b"abc", items=1)),
    "patterns cut short": claim(
        make_block(BlockKind.PATTERNS, b"\x05\x01", 1), ONE_MALLOC, patterns=1
    ),
    "patterns of nothing": claim(
        make_block(BlockKind.PATTERNS, b"\x01\x00\x00", 1), ONE_MALLOC, patterns=1
    ),
    "more patterns than declared": claim(make_block(BlockKind.PATTERNS, b"\x00", 1), ONE_MALLOC),
    "more runs than allowed": claim(
        make_block(BlockKind.PATTERNS, encode_varints(np.array([1500] + [1] * 3000, np.uint64)), 1),
        ONE_MALLOC,
        patterns=1,
    ),
    "two threads of one number": make_file(
        make_header(threads=[*rows((1, 1)), *rows((0, 0))]), ONE_MALLOC
    ),
    "a thread that begins before it is created": make_file(
        make_header(threads=[{**rows((1, 1))[0], "created": 20}]), ONE_MALLOC
    ),
    "a thread that is created after its end": make_file(
        make_header(threads=[*rows((1, 1)), {**rows((1, 1), (0, 0))[1], "created": 9, "ended": 8}]),
        ONE_MALLOC,
    ),
    "a thread created by nobody": make_file(
        make_header(threads=[{**rows((1, 1))[0], "created_by": 5}]), ONE_MALLOC
    ),
    "threads that created each other": make_file(
        make_header(
            threads=[{**row, "created_by": 1 - i} for i, row in enumerate(rows((1, 1), (0, 0)))]
        ),
        ONE_MALLOC,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedTrace):
        parse(HOSTILE[name])
    path = tmp_path / "a.trace"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(UsageError) as caught:
        read_trace(path, LIMITS)
    assert "\n" not in str(caught.value)


def test_what_the_hostile_ones_are_made_of_is_right() -> None:
    assert parse(claim(ONE_MALLOC)).objects.size.tolist() == [8]


def test_memory_is_bounded_by_what_is_unpacked() -> None:
    many = events([M] * 60_000, delay=[0] * 60_000, size=[8] * 60_000)
    data = claim(many, threads=[(60_000, 60_000)])
    assert len(data) < 1000
    with pytest.raises(DamagedTrace, match="more than 10,000 events"):
        parse(data)
    with pytest.raises(DamagedTrace, match="unpacks to more than"):
        parse(data, TraceLimits(unpacked=2**16))
    assert len(parse(data, TraceLimits()).objects.size) == 60_000


@given(data=st.data())
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
def test_any_change_is_refused_or_makes_a_trace(data: st.DataObject) -> None:
    """Blocks whose checksums are right again after a change."""
    trace = small_trace(2)
    content = make_events([M, M, F | 8, F], delay=[1, 2, 3, 4], size=[8, 90], distance=[1])
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    packed = claim(make_block(BlockKind.EVENTS, bytes(changed), 4), threads=[(4, 2)])
    try:
        trace = parse(packed)
    except DamagedTrace:
        return
    check_trace(trace.threads, trace.objects)


def test_a_trace_that_cannot_be_is_refused() -> None:
    trace = small_trace()
    first = trace.threads[0]
    twice = replace(first, freed=np.where(first.kind == F, first.freed[first.kind == F][0], NONE))
    with pytest.raises(InvalidTrace, match="freed twice"):
        check_trace((twice, *trace.threads[1:]), trace.objects)


def test_marks_survive() -> None:
    trace = replace(small_trace(), marks=(Mark(time=5, name="Größe „1“", truth={"rss": 2**40}),))
    assert parse(pack(trace)).marks == trace.marks


def test_the_mallocs_version_and_settings_survive() -> None:
    trace = small_trace()
    facts = replace(trace.facts, allocator_version="5.3.0", settings=("MALLOC_CONF=narenas:2",))
    assert parse(pack(replace(trace, facts=facts))).facts == facts
    # A trace of before they were recorded.
    header = json.loads(make_header())
    older = {k: v for k, v in header["facts"].items() if k not in ("allocator_version", "settings")}
    read = parse(claim(events([1], delay=0, size=8), facts=older))
    assert (read.facts.allocator_version, read.facts.settings) == ("", None)


def test_a_trace_that_memory_does_not_suffice_for_is_refused_by_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explain_lack_of_memory(10**6, 2**30) is None
    complaint = explain_lack_of_memory(10**8, 8 * 2**30)
    assert complaint is not None
    assert "100,000,000 events take up to 14.0 GiB of memory to read, and 8.00 GiB" in complaint
    path = tmp_path / "x.trace"
    write_trace(compile_recording(simulate(1).recording), path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    monkeypatch.setattr(ThreadEvents, "__init__", None)  # Nothing of it is built.
    with pytest.raises(UsageError, match=r"of memory to read, and 1000 .* are available") as error:
        read_trace(path)
    assert str(error.value).startswith(f"{path}: its ")
    assert "trace verify" not in str(error.value)

"""The plan: a trace as the engine reads it, one file of fixed-width records."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.trace.model import NONE, Mark, ThreadEvents, Trace
from dballoc.trace.replay import plan_layout
from dballoc.trace.replay.check_trace import find_allocated_objects, find_shared_objects
from dballoc.trace.replay.make_records import PlanObjects, make_records
from dballoc.trace.replay.thread_births import Births, find_births

# ns. By default a thread is ahead of the slowest one by less than two epochs. In a trace that is
# dense, 5 ms are more events than threads that wait for each other were ever apart.
EPOCH_NS = 5_000_000
_SHORTEST_EPOCH = 50_000
_EVENTS_OF_A_THREAD = 200
_MOST_OBJECTS = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """A plan on disk, and what of the trace it does not hold.

    ``marks``: their names, in the file's order. ``events``: calls of malloc's functions in it;
    ``left_out``: events of the trace that are not replayed (frees of blocks that it does not
    allocate). ``duration``: ns of the trace; ``epoch_ns``: of an epoch.
    """

    path: Path
    threads: int
    events: int
    left_out: int
    duration: int
    epoch_ns: int
    marks: tuple[str, ...]

    def list_stretch_ends(self) -> list[int]:
        """Return the moments at which the engine tells the live bytes, ns of the trace: the ends
        of its epochs, or of as many of them at a time as give no more than 2,000.
        """
        epochs = self.duration // self.epoch_ns + 1
        stretch = -(-epochs // plan_layout.CURVE_POINTS)
        ends = range(stretch, epochs + stretch, stretch)
        return [min(end, epochs) * self.epoch_ns for end in ends]


def write_plan(trace: Trace, path: Path) -> ReplayPlan:
    """Write the plan of a trace to a new file. Raises UsageError if the trace cannot be replayed;
    Failure if the file cannot be written.
    """
    if not trace.threads:
        raise UsageError("trace: it has no thread, so there is nothing to replay")
    if len(trace.objects.size) > _MOST_OBJECTS:
        raise UsageError(
            f"trace: {len(trace.objects.size)} blocks; no more than {_MOST_OBJECTS} can be "
            "replayed at once: take a stretch of it (dballoc trace cut)"
        )
    shared = find_shared_objects(trace)
    allocated = find_allocated_objects(trace)
    objects = PlanObjects(
        objects=trace.objects,
        allocated=allocated,
        shared_slot=np.where(shared, np.cumsum(shared, dtype=np.int32) - 1, NONE),
        own_slot=np.full(len(shared), NONE, np.int32),
    )
    duration = _find_duration(trace)
    calls = sum(len(each.kind) for each in trace.threads)
    epoch_ns = choose_epoch(duration, calls // len(trace.threads))
    header = np.zeros(1, plan_layout.HEADER)
    header["magic"], header["version"] = plan_layout.MAGIC, plan_layout.VERSION
    header["shared"] = np.count_nonzero(shared)
    header["epochs"], header["epoch_ns"] = duration // epoch_ns + 1, epoch_ns
    header["page_size"] = trace.facts.page_size
    try:
        with (
            OutputDirectory.open(path.parent) as directory,
            directory.create_file(path.name) as file,
        ):
            _write_sections(file, trace, objects, header)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from None
    events = sum(_count_replayed(each, allocated) for each in trace.threads)
    return ReplayPlan(
        path=path,
        threads=len(trace.threads),
        events=events,
        left_out=sum(len(each.kind) for each in trace.threads) - events,
        duration=duration,
        epoch_ns=epoch_ns,
        marks=tuple(mark.name for mark in _sort_marks(trace)),
    )


def choose_epoch(duration: int, calls: int = 0) -> int:
    """Choose the length of an epoch in ns: EPOCH_NS; shorter if a thread, which makes so many
    ``calls`` on average, makes more than 200 in it; longer for a trace of days. Raises UsageError
    for one that is too long for any.
    """
    shortest = duration // plan_layout.MOST_EPOCHS + 1
    if shortest > plan_layout.LONGEST_EPOCH:
        raise UsageError(
            f"trace: it is {duration / 86400e9:.0f} days long; no more than 13 can be replayed"
        )
    dense = duration * _EVENTS_OF_A_THREAD // max(1, calls)
    return max(min(EPOCH_NS, max(dense, _SHORTEST_EPOCH)), shortest)


def _sort_marks(trace: Trace) -> list[Mark]:
    return sorted(trace.marks, key=lambda mark: mark.time)


def _count_replayed(events: ThreadEvents, allocated: NDArray[np.bool_]) -> int:
    """Count the events that allocate a block, or free one that the trace allocates."""
    freed = events.freed[(events.object == NONE) & (events.freed != NONE)]
    return int(np.count_nonzero(events.object != NONE) + np.count_nonzero(allocated[freed]))


def _find_duration(trace: Trace) -> int:
    """Find the last moment that is in the plan, in ns."""
    ends = [int(each.completed[-1]) for each in trace.threads if len(each.kind)]
    marks = [mark.time for mark in trace.marks]
    if marks and min(marks) < 0:
        raise UsageError("trace: a mark before its beginning")
    lives = [moment for each in trace.threads for moment in (each.created, each.ended)]
    return max([*ends, *marks, *lives, 0])


def _write_sections(
    file: BinaryIO, trace: Trace, objects: PlanObjects, header: NDArray[np.void]
) -> None:
    """Write the whole file; the header and the table of threads are known at the end."""
    births: Births = find_births(trace)
    threads = np.zeros(len(trace.threads), plan_layout.THREAD)
    file.seek(header.nbytes + threads.nbytes)
    total = 0
    for index, events in enumerate(trace.threads):
        children = births.by_creator.get(index, ())
        made = make_records(events, children, objects, int(header["epoch_ns"][0]))
        flags = plan_layout.THREAD_ROOT if index in births.roots else 0
        flags |= plan_layout.THREAD_STAYS if events.ended == NONE else 0
        first = total
        for records in made.pieces:
            file.write(records.data)
            total += len(records)
        threads[index] = (first, total - first, made.slots, flags)
    lengths = np.array([len(pattern) for pattern in trace.touch_patterns], np.int64)
    pattern = np.zeros(len(lengths), plan_layout.PATTERN)
    pattern["runs"] = lengths
    pattern["first"] = np.cumsum(lengths) - lengths
    runs = np.array([run for each in trace.touch_patterns for run in each], np.int64).reshape(-1, 2)
    marks = np.array([mark.time for mark in _sort_marks(trace)], np.int64)
    for section in (pattern, runs, marks):
        file.write(section.tobytes())
    header["bytes"] = file.tell()
    header["threads"], header["records"] = len(threads), total
    header["patterns"], header["runs"], header["marks"] = len(pattern), len(runs), len(marks)
    file.seek(0)
    file.write(header.tobytes() + threads.tobytes())

"""``bench --record``: a start of the baseline, beside the measured ones, whose every allocation is
recorded, with the server's own memory at its steps; in the end it is a trace.
"""

from pathlib import Path

from dballoc.campaign.trial import solo_trial
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import Step, plan_steps
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory, write_own
from dballoc.instruments.ways_in.preload_socket import RECORDER
from dballoc.process import snapshot as process_snapshot
from dballoc.process.heaps.allocator_statistics import (
    CACHES,
    FAST_BINS,
    HELD,
    TCACHE,
    AllocatorStatistics,
)
from dballoc.process.mapping_kind import MappingKind
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord
from dballoc.store.rows import LedgerRow, MarkRow
from dballoc.trace.recording.recorder_client import Recorder, find_recorder_of_process

# Memory that a malloc holds and nobody uses.
_FREE = (CACHES, FAST_BINS, HELD, TCACHE)


def run_recording(
    context: TrialContext,
    slot: Slot,
    template: Template,
    directory: Path,
    results: Path,
    *,
    measured: TrialRecord,
) -> None:
    """Start the variant once more under the recorder, with the steps of a trial, and keep the trace
    in ``results``, unless it is there already. It ends with the last step: the shutdown is no part
    of the load. ``measured``: the variant's trial without the recorder. A fault does not count, but
    is reported. Raises Interrupted and OSError as for
    :func:`dballoc.campaign.trial.solo_trial.run_trial`.
    """
    target = results / name_trace(context.setting.experiment, slot.variant)
    if target.exists():
        return
    raw = directory / "recording"
    OutputDirectory.open(raw).close()
    steps = plan_recorded_steps(context, slot)
    marks = _Marks(steps[-1], measure_peak_heap(measured))
    trial = solo_trial.SoloTrial(
        context, slot, template, raw, instrument=RECORDER, steps=steps, watch=marks.take
    )
    try:
        record = trial.run().trial
        if record.outcome == "fault":
            raise Failure(str(record.fault_text))
        _compile(trial.life.run_directory, target)
    except (Failure, UsageError) as error:
        context.observer.notice(f"{slot.variant}: no trace: {error}")
        write_own(raw / "trace.txt", f"{error}\n")
    else:
        context.observer.notice(f"{slot.variant}: its allocations are in {target}")
    finally:
        trial.clean_up()


def name_trace(experiment: Experiment, variant: str) -> str:
    """Return the name of the trace's file in a results directory."""
    return f"{experiment.name}-{variant}.trace"


def plan_recorded_steps(context: TrialContext, slot: Slot) -> list[Step]:
    """Return the steps of a trial, without profiles."""
    experiment = context.setting.experiment.model_copy(update={"profile": None})
    return plan_steps(experiment, slot, context.setting.contents.tables)


class _Marks:
    """Takes a mark after the start and after each step, and ends the recording after the ``last``.
    ``peak_heap``: that of the server without the recorder, bytes; None if it is not known.
    """

    def __init__(self, last: Step, peak_heap: int | None) -> None:
        self._last = last
        self._peak_heap = peak_heap

    def take(self, life: ServerLife, step: Step | None, peak: int) -> None:
        """Measure the server, which is at rest, and put that into the recording. ``peak``: RSS at
        most in the step, bytes.
        """
        name = "-".join(f"after {step.title if step else 'the start'}".split())
        try:
            recorder = find_recorder_of_process(life.running.process)
            truth = measure_truth(life, recorder, peak)
            if step is self._last and self._peak_heap is not None:
                truth["heap_peak"] = self._peak_heap
            recorder.mark(name, truth)
            if step is self._last:
                recorder.stop()
        except (Failure, UsageError) as error:
            life.context.observer.notice(f"{life.prepared.variant.name}, {name}: {error}")


def measure_peak_heap(measured: TrialRecord) -> int | None:
    """Return the peak heap of a trial in bytes: the most RSS that it had, less what by its ledger
    was not heap at rest after the load; None without a ledger.

    The recorder changes the heap that it records: the blocks that it looks at are not the malloc's,
    so that glibc, for one, never learns from freeing the first large ones to keep them.
    """
    peak = measured.trial.rss_peak
    ledger = measured.select(LedgerRow)
    if peak is None or not ledger:
        return None
    # The clients leave after the last step's samples, and the malloc may still grow then.
    most = max([peak, *(mark.rss for mark in measured.select(MarkRow))])
    return int(most - sum(row.resident for row in ledger if row.part != "heap"))


def measure_truth(life: ServerLife, recorder: Recorder, peak: int) -> dict[str, int]:
    """Measure the server's memory, in bytes, without the recorder's own: ``rss``, ``pss``, ``heap``
    (the resident memory of its malloc's), ``rss_peak`` (in the step; not there if it is not known),
    ``pool`` (its cache's size, where there is one); and, of mallocs whose heap can be walked, by
    their own books ``malloc_live``, what is in use, and ``malloc_free``, what they hold beside it.
    Raises Failure if the host forbids to read it.

    The recorder serves a sample of the large blocks from mappings of its own, to see which pages
    are touched. They are heap, and beside glibc's no malloc claims them in the ledger; no malloc
    has them in its books.
    """
    assert life.mark
    snapshot = process_snapshot.take_process_snapshot(life.running.process)
    lines = build_ledger(snapshot).lines
    memory = recorder.measure_memory()
    heap = sum(x.resident for x in lines if x.group == "heap")
    if any(x.owner == MappingKind.MALLOC for x in lines):
        heap -= (
            memory.buffers
        )  # what nothing else claims is the malloc's there, its blocks among it
    else:
        heap += memory.blocks
    sizes = {"rss": life.mark.rss, "pss": life.mark.pss, "rss_peak": peak}
    return {
        "heap": max(0, heap),
        **({"pool": pool} if (pool := life.prepared.pool_bytes) else {}),
        **read_books(snapshot.heap.statistics if snapshot.heap else None, memory.sizes),
        **{name: size - memory.buffers for name, size in sizes.items() if size > memory.buffers},
    }


def read_books(statistics: AllocatorStatistics | None, served: int) -> dict[str, int]:
    """Return what a malloc's books say is in use, and what they hold beside it, in bytes; nothing
    if it has none. ``served``: what is in use of the recorder's own mappings.
    """
    if statistics is None or statistics.live is None:
        return {}
    held = sum(holding.bytes for holding in statistics.holdings if holding.owner in _FREE)
    return {"malloc_live": statistics.live + served, "malloc_free": held}


def _compile(directory: Path, target: Path) -> None:
    """Make the trace of the recording in ``directory``. Raises Failure or UsageError if there is
    none.
    """
    # Here: what only measures has neither numpy nor zstandard.
    from dballoc.trace.compilation.compile_recording import compile_recording
    from dballoc.trace.recording.read_recording import read_recording
    from dballoc.trace.trace_file.write_trace import write_trace

    recordings = sorted(directory.glob("*.recording"))
    if not recordings:
        raise Failure("the recorder wrote no file")
    # A server that detaches leaves several; what it served from is the largest.
    largest = max(recordings, key=lambda path: path.lstat().st_size)
    write_trace(compile_recording(read_recording(largest)), target)

"""What cannot be tested under qemu-user, and why; docs/aarch64.md tells the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.resources import cgroup

_OUTSIDE = "it reads the process from outside, and would see the emulator's memory"
_TIMES = "it compares times, and emulated ones say nothing of the processor's"
_SANITIZER = "sanitizers want an address space of their own, which qemu-user does not give"
_HOST = "it tests a tool on files of this machine's compiler"

# By file, or file and test.
NOT_EMULATED = {
    "test_bloat.py": _OUTSIDE,
    "test_classes.py": _OUTSIDE,
    "test_contended.py": _OUTSIDE,
    "test_heap.py": _OUTSIDE,
    "test_sampled.py": _OUTSIDE,
    "test_spin.py": _TIMES,
    "test_hardening.py::test_the_same_flags_pass": _HOST,
    "test_hardening.py::test_what_is_not_is_told": _HOST,
    "test_hardening.py::test_what_it_exports_is_listed": _HOST,
    "test_udf.py::test_what_is_live_is_what_was_asked_for": _OUTSIDE,
    "test_udf.py::test_what_it_does_not_count_is_walked_from_outside": _OUTSIDE,
    "test_udf.py::test_every_arena_is_told_and_no_list_of_sizes": _OUTSIDE,
    "test_udf.py::test_what_does_not_fit_is_left_out_and_said": _SANITIZER,
    "test_udf.py::test_a_buffer_too_small_for_anything_stays_what_it_is": _SANITIZER,
    "test_probe.py::test_the_tables_under_a_sanitizer": _SANITIZER,
    "test_recorder.py::test_its_parts_under_a_sanitizer": _SANITIZER,
    "test_recorder.py::test_all_of_it_under_a_sanitizer": _SANITIZER,
    "test_trace_truth.py::test_from_the_command_line": _HOST,
}

# An emulated program can take all memory of this machine (mariadbd did, under qemu 7.2).
LIMIT = 4 << 30


def find_reason(name: str) -> str | None:
    """Why a test cannot run emulated; None if it can. ``name``: FILE::TEST, maybe with [CASE]."""
    file, _, test = name.partition("[")[0].partition("::")
    return NOT_EMULATED.get(file) or NOT_EMULATED.get(f"{file}::{test}")


@contextmanager
def limited_memory() -> Iterator[None]:
    """This process and its children in a cgroup with a limit. UsageError where there can be none."""
    with Custody() as custody:
        group = cgroup.create_memory_cgroup(custody, LIMIT)
        before = group.path.parent
        if group.version == 2:  # where processes are only in groups without children
            before = cgroup.ROOT / cgroup.SELF.read_text().partition("0::/")[2].strip()
        (group.path / "cgroup.procs").write_text("0")
        try:
            yield
        finally:
            (before / "cgroup.procs").write_text("0")


def name_test(nodeid: str) -> str:
    """FILE::TEST of pytest's name for it."""
    path, _, test = nodeid.partition("::")
    return f"{Path(path).name}::{test}"

"""What cannot be tested under qemu-user, and why; docs/aarch64.md tells the same."""

from pathlib import Path

_OUTSIDE = "it reads a process's memory as the kernel sees it: the emulator's"
_TIMES = "it compares times, and emulated ones say nothing of the processor's"
_SANITIZER = "sanitizers want an address space of their own, which qemu-user does not give"
_HOST = "it tests a tool on files of this machine's compiler"
_SWITCH = "qemu-user knows no PR_SET_THP_DISABLE"
_FILTER = "qemu-user knows no filters of system calls (seccomp)"
_SPACE = "it limits a process's address space, which would be the emulator's"
_FORKS = "qemu-user's own lock may stay locked in forked children: the emulated machine runs it"
_HEAP = (
    "qemu-user's brk ends early, so that the heap is not one piece: the emulated machine runs it"
)

# By file, FILE::TEST or FILE::TEST[CASE].
NOT_EMULATED = {
    "test_bloat.py": _OUTSIDE,
    "test_classes.py": _OUTSIDE,
    "test_contended.py": _OUTSIDE,
    "test_heap.py": _OUTSIDE,
    "test_sampled.py": _OUTSIDE,
    "test_spin.py": _TIMES,
    "test_probe.py::test_time_in_malloc_is_counted": _TIMES,
    "test_probe.py::test_time_in_malloc_has_its_callers": _TIMES,
    "test_replay_engine.py::test_the_engine_itself_has_no_heap": _OUTSIDE,
    "test_replay_engine.py::test_a_trace_of_days_takes_memory_for_its_events_alone": _SPACE,
    "test_hardening.py::test_what_it_exports_is_listed": _HOST,
    "test_udf.py::test_what_is_live_is_what_was_asked_for": _OUTSIDE,
    "test_udf.py::test_what_it_does_not_count_is_walked_from_outside": _OUTSIDE,
    "test_udf.py::test_every_arena_is_told_and_no_list_of_sizes": _OUTSIDE,
    "test_udf.py::test_what_does_not_fit_is_left_out_and_said": _SANITIZER,
    "test_udf.py::test_a_buffer_too_small_for_anything_stays_what_it_is": _SANITIZER,
    "test_keep_thp.py::test_the_call_is_swallowed": _SWITCH,
    "test_keep_thp.py::test_without_it_the_call_works": _SWITCH,
    "test_keep_thp.py::test_what_was_disabled_before_can_be_enabled_again": _SWITCH,
    "test_probe.py::test_a_storm_of_threads_forks_libraries_and_signals": _FORKS,
    "test_probe.py::test_where_nothing_is_sampled_no_block_is_looked_up": _HEAP,
    "test_replay_engine.py::test_an_hour_in_which_nothing_happens_is_no_cpu": _TIMES,
    "test_probe_asked.py::test_a_program_that_closes_what_it_inherited_keeps_its_clients[filtered]": _FILTER,
    "test_probe_asked.py::test_what_cannot_be_asked_says_so[filtered]": _FILTER,
    "test_probe.py::test_the_tables_under_a_sanitizer": _SANITIZER,
    "test_recorder.py::test_its_parts_under_a_sanitizer": _SANITIZER,
    "test_recorder.py::test_all_of_it_under_a_sanitizer": _SANITIZER,
    "test_trace_truth.py::test_from_the_command_line": _HOST,
}


def find_reason(name: str) -> str | None:
    """Why a test cannot run emulated; None if it can. ``name``: FILE::TEST, maybe with [CASE]."""
    test = name.partition("[")[0]
    for part in (test.partition("::")[0], test, name):
        if part in NOT_EMULATED:
            return NOT_EMULATED[part]
    return None


def name_test(nodeid: str) -> str:
    """FILE::TEST of pytest's name for it."""
    path, _, test = nodeid.partition("::")
    return f"{Path(path).name}::{test}"

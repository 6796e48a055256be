"""perf_event_attr as the kernel's header lays it out, and what a refusal means."""

import ctypes
import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.instruments import perf_events
from dballoc.instruments.perf_events import (
    EXCLUDE_HYPERVISOR,
    EXCLUDE_KERNEL,
    EXCLUDE_USER,
    INHERIT,
)


class Attributes(ctypes.Structure):
    """<linux/perf_event.h>, up to sig_data; the bit fields as one number."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
        ("config2", ctypes.c_uint64),
        ("branch_sample_type", ctypes.c_uint64),
        ("sample_regs_user", ctypes.c_uint64),
        ("sample_stack_user", ctypes.c_uint32),
        ("clockid", ctypes.c_int32),
        ("sample_regs_intr", ctypes.c_uint64),
        ("aux_watermark", ctypes.c_uint32),
        ("sample_max_stack", ctypes.c_uint16),
        ("reserved_2", ctypes.c_uint16),
        ("aux_sample_size", ctypes.c_uint32),
        ("reserved_3", ctypes.c_uint32),
        ("sig_data", ctypes.c_uint64),
    ]


NAMES = ["instructions", "cycles", "task-clock", "page-faults", "context-switches"]


def test_the_attributes_are_where_the_header_has_them() -> None:
    assert ctypes.sizeof(Attributes) == perf_events.ATTR_SIZE == 128
    for event in perf_events.list_events(NAMES):
        packed = perf_events.pack_attributes(event)
        attributes = Attributes.from_buffer_copy(packed)
        assert len(packed) == attributes.size == 128
        assert (attributes.type, attributes.config) == (event.type, event.config)
        assert attributes.flags == INHERIT | event.exclude
        assert attributes.read_format == 0b1011  # both times and the group
        # An older kernel refuses what it does not know, unless it is zero.
        assert not any(packed[Attributes.wakeup_events.offset :])


def test_the_flags_are_the_bits_of_the_header() -> None:
    names = "disabled inherit pinned exclusive exclude_user exclude_kernel exclude_hv".split()
    bits = {name: 1 << place for place, name in enumerate(names)}
    assert bits["inherit"] == INHERIT
    assert bits["exclude_user"] == EXCLUDE_USER
    assert bits["exclude_kernel"] == EXCLUDE_KERNEL
    assert bits["exclude_hv"] == EXCLUDE_HYPERVISOR


def test_user_mode_and_the_kernel_are_counted_apart() -> None:
    events = {e.name: e for e in perf_events.list_events(["instructions", "page-faults"])}
    assert list(events) == ["instructions:u", "instructions:k", "page-faults"]
    assert events["instructions:u"].exclude == EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    assert events["instructions:k"].exclude == EXCLUDE_USER | EXCLUDE_HYPERVISOR
    assert events["page-faults"].exclude == 0
    assert [e.hardware for e in events.values()] == [True, True, False]


def test_where_the_kernel_may_not_be_counted() -> None:
    events = perf_events.list_events(["instructions", "page-faults"], kernel=False)
    assert [event.name for event in events] == ["instructions:u"]


@given(
    counts=st.lists(st.integers(0, 2**64 - 1), max_size=10),
    enabled=st.integers(0, 2**50),
    running=st.integers(0, 2**50),
)
def test_a_groups_answer(counts: list[int], enabled: int, running: int) -> None:
    answer = struct.pack(f"={3 + len(counts)}Q", len(counts), enabled, running, *counts)
    reading = perf_events.parse_group(answer)
    assert reading.counts == tuple(counts)
    assert (reading.enabled, reading.running) == (enabled / 1e9, running / 1e9)


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [
        (errno.EACCES, "kernel.perf_event_paranoid = 3", "kernel.perf_event_paranoid=1"),
        (errno.EPERM, "system call filter", "CAP_PERFMON"),
        (errno.ENOENT, "hypervisor", "PMU"),
        (errno.EOPNOTSUPP, "hypervisor", "PMU"),
        (errno.ENOSYS, "no perf_event_open", "CONFIG_PERF_EVENTS"),
        (errno.EINVAL, "too few free counters", "fewer"),
        (errno.EMFILE, "too many open files", "ulimit"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, words: str, remedy: str) -> None:
    text = perf_events.explain_error(OSError(code, os.strerror(code)), 3)
    reason, _, what_to_do = text.partition("; ")
    assert words in reason
    assert remedy in what_to_do
    assert "\n" not in text


def test_any_other_refusal_is_the_kernels_own_word() -> None:
    assert perf_events.explain_error(OSError(errno.EIO, "Input/output error"), None) == (
        "perf_event_open: Input/output error"
    )

"""Call stacks that other programs counted: collapsed, of xperf, of Windows Performance Analyzer."""

import re
import time

import pytest
from example_imports import ALLOCATE, DUMP, ENTER, SLEEP, TABLE, THREAD, stack_file
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.ground.errors import UsageError
from dballoc.intake import stack_profiles
from dballoc.intake.stack_profiles import parse_frame
from dballoc.profile import call_tree, frame_kinds
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.contention.waits_below_malloc import split_waits
from dballoc.profile.formats.collapsed import parse_collapsed
from dballoc.profile.model import Frame, Profile

RULES = Rules(catalogue.waits())


def read(text: str, **changed: object) -> Profile:
    return stack_profiles.parse_profile(text, stack_file(**changed), RULES)


def test_counts_may_have_fractions_and_percent_signs() -> None:
    text = "a;b 2\n\n  a;b 0.5\r\nc 40%\nc;d 1e2\nnothing;here 0\n"
    assert parse_collapsed(text, "f") == {
        ("a", "b"): 2.5,
        ("c",): 40.0,
        ("c", "d"): 100.0,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:1: no stacks in it"),
        ("a;b 0\n", "f:1: no stacks in it"),
        ("a;b 1\na;b\n", "f:2: 'a;b' is not a collapsed stack like main;parse;malloc 12"),
        ("a;b -1\n", "f:1: 'a;b -1' is not a collapsed stack"),
        ("a;b 1,5\n", "f:1: 'a;b 1,5' is not a collapsed stack"),
        ("a;b nan\n", "f:1: 'a;b nan' is not a collapsed stack"),
        ("a 1 2\nb 2 3\n", "f:2: every line has two numbers: the difference of two profiles"),
        ("a 1e99\n", "f:1: a number that is too large"),
        (";".join("a" * 3000) + " 1\n", "f:1: a stack of more than 2,000 frames"),
    ],
)
def test_what_is_no_collapsed_stack_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        parse_collapsed(text, "f")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("ucrtbase.dll!_malloc_base", Frame("_malloc_base", "ucrtbase.dll")),
        ("ntdll.dll!RtlAllocateHeap+0x3E", Frame("RtlAllocateHeap", "ntdll.dll")),
        ("hp_get_new_block", Frame("hp_get_new_block")),
        ("do_futex_[k]", Frame("do_futex", "[kernel]")),
        ("inlined_[i]", Frame("inlined")),
        ("mariadbd+0x1a2b", Frame("mariadbd+0x1a2b", "mariadbd", named=False)),
        ("Unknown!0x00007ffb1c2d", Frame("Unknown!0x00007ffb1c2d", "Unknown", named=False)),
        ("a.dll!<PDB not found>", Frame("a.dll!<PDB not found>", "a.dll", named=False)),
        ("?", Frame("?", named=False)),
        ("operator!=(A const&, B const&)", Frame("operator!=(A const&, B const&)")),
        ("A::operator!()", Frame("A::operator!()")),
        ("server.dll!A::operator/(B)", Frame("A::operator/(B)", "server.dll")),
    ],
)
def test_frames_of_other_programs(text: str, frame: Frame) -> None:
    assert parse_frame(text) == frame


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_any_text_is_a_frame_with_a_name(text: str) -> None:
    assert parse_frame(text).function


@pytest.mark.parametrize(
    ("stack", "group", "call", "entry"),
    [
        (f"{THREAD};{ALLOCATE};{ENTER};{SLEEP}", "lock", "lock", "_malloc_base"),
        (
            f"{THREAD};{ALLOCATE};ntdll.dll!RtlpHpAllocVirtBlockCommitFirst;"
            "ntdll.dll!NtAllocateVirtualMemory",
            "memory",
            "VirtualAlloc",
            "_malloc_base",
        ),
        (f"{THREAD};ntdll.dll!RtlFreeHeap;{SLEEP}", "lock", "lock", "RtlFreeHeap"),
        (f"{THREAD};server.dll!trx_commit;{ENTER[27:]};{SLEEP}", "lock", "lock", ""),
        (
            f"{THREAD};KERNELBASE.dll!SleepConditionVariableCS;{SLEEP}",
            "condition",
            "condition",
            "",
        ),
        (
            f"{THREAD};KERNELBASE.dll!ReadFile;ntdll.dll!NtReadFile;npfs.sys!NpFsdRead",
            "client",
            "client",
            "",
        ),
        (f"{THREAD};KERNELBASE.dll!ReadFile;ntdll.dll!NtReadFile", "disk", "disk", ""),
        (
            "ntdll.dll!TppWorkerThread;ntdll.dll!NtWaitForWorkViaWorkerFactory",
            "client",
            "client",
            "",
        ),
        (
            f"{THREAD};ntoskrnl.exe!KiPageFault;ntoskrnl.exe!MmAccessFault",
            "memory",
            "page fault",
            "",
        ),
        ("mariadbd;start_thread;malloc;__lll_lock_wait_private", "lock", "lock", "malloc"),
    ],
)
def test_what_a_stack_waits_for(stack: str, group: str, call: str, entry: str) -> None:
    (sample,) = read(f"{stack} 3\n").samples
    assert (sample.labels["wait"], sample.labels["call"]) == (group, call)
    assert sample.labels.get("malloc", "") == entry


def test_the_kernels_frames_are_marked_whatever_the_program_calls_them() -> None:
    for text in (
        "main;malloc;ntoskrnl.exe!KiSwapThread;win32k.sys!NtUserWait 1",
        "main;malloc;entry_SYSCALL_64_after_hwframe;do_futex 1",
        "main;malloc;do_futex_[k];schedule_[k] 1",
    ):
        (sample,) = read(text).samples
        assert [f.module for f in sample.stack] == ["", "", "[kernel]", "[kernel]"]
    assert frame_kinds.classify_frame(parse_frame("ntdll.dll!RtlpHpVsContextAllocate")) == "malloc"
    assert frame_kinds.classify_frame(parse_frame("ntdll.dll!RtlUserThreadStart")) == "library"


def test_a_profile_counts_as_its_file_says() -> None:
    text = (
        f"{THREAD};{ALLOCATE};{ENTER} 30.5\n{THREAD};npfs.sys!NpFsdRead 69.5\n[truncated];a;b 100\n"
    )
    waits = read(text)
    assert [v.key for v in waits.values] == ["waits"]
    split = split_waits(waits)
    assert split.share(split.below) == pytest.approx(0.1525)
    assert waits.samples[2].truncated
    assert call_tree.list_frames(waits.samples[2])[0] == call_tree.TRUNCATED
    assert waits.facts["method"] == (
        "imported from nt.collapsed: collapsed stacks, 3 different stacks"
    )
    waited = read(text, counts="waited")
    assert waited.total("waited") == pytest.approx(200e-6)
    woken = read(text, counts="wakeups")
    assert (woken.total("wakeups"), woken.samples[0].labels) == (200, {"malloc": "_malloc_base"})
    assert read(text, counts="cpu").values[0].key == "cpu"


def test_the_events_of_xperf() -> None:
    switches = stack_profiles.parse_dump(DUMP, "f", "waits", "mariadbd")
    assert switches == {
        (
            "server.dll!List<A, B>::push",
            "ntdll.dll!RtlAllocateHeap",
            "ntoskrnl.exe!KiSwapContext",
        ): 2
    }
    assert stack_profiles.parse_dump(DUMP, "f", "wakeups", None) == {("ntdll.dll!RtlFreeHeap",): 1}
    assert stack_profiles.parse_dump(DUMP, "f", "waits", "77") == {("sysbench.exe!main",): 1}
    assert stack_profiles.is_dump(DUMP)
    assert not stack_profiles.is_dump("CSwitch;a 12\n")
    (sample,) = read(DUMP, process="MariaDBd.EXE").samples
    assert sample.values == (2.0,)
    assert sample.labels["malloc"] == "RtlAllocateHeap"


STACK = ("ntdll.dll!RtlUserThreadStart", "server.dll!A::operator/(B)", "ntdll.dll!X")


def test_a_process_of_spaces_takes_no_time_that_grows_with_its_square() -> None:
    began = time.process_time()
    dump = f"{DUMP}CSwitch, 9,{' ' * 5_000}, 1, 2\nCSwitch, 9, a (x) ( 7 ), 1, 2\n"
    assert stack_profiles.parse_dump(dump, "f", "waits", "77") == {("sysbench.exe!main",): 1}
    assert time.process_time() - began < 5


def test_a_table_of_windows_performance_analyzer() -> None:
    assert stack_profiles.is_table(TABLE)
    assert not stack_profiles.is_table("main;my_stack 12\nmain;stack 3\n")
    assert stack_profiles.parse_table(TABLE, "f", "waits", "mariadbd.exe") == {STACK: 1234}
    assert stack_profiles.parse_table(TABLE, "f", "waited", "1234") == {STACK: 2000.5}
    german = TABLE.replace(",", ";").replace('"1;234"', '"1.234"').replace('"2;000.5"', '"2.000,5"')
    german = german.replace('"20;726;984"', '"20.726.984"')
    assert stack_profiles.parse_table(german, "f", "waits", "mariadbd.exe") == {STACK: 1234}
    assert stack_profiles.parse_table(german, "f", "waited", "mariadbd.exe") == {STACK: 2000.5}
    assert stack_profiles.parse_table("Stack\na!b/c!d\na!b/c!d\n", "f", "cpu", None) == {
        ("a!b", "c!d"): 2
    }


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        (DUMP, {}, "nt.collapsed:1: stacks of 2 processes; say which by process in [[stacks]]: "),
        (DUMP, {"process": "mysqld"}, "process: no 'mysqld'; there are 'mariadbd.exe (1234)', "),
        (DUMP, {"counts": "cpu"}, "no SampledProfile event with a call stack; record them with"),
        (DUMP, {"counts": "waited"}, "nt.collapsed:1: events have no times waited"),
        (
            DUMP.replace("sysbench.exe (  77)", "mariadbd.exe (  77)"),
            {"process": "mariadbd"},
            "process: 2 are called 'mariadbd'; give its number instead",
        ),
        (TABLE, {}, "nt.collapsed:1: stacks of 2 processes"),
        (TABLE, {"counts": "wakeups"}, "column 'ready thread stack' or 'readying thread stack'"),
        (TABLE.replace("1,234", "many"), {"process": "1234"}, ":2: Count: 'many' is not a number"),
        (TABLE.replace("Waits (us)", "W"), {"counts": "waited"}, "column 'Waits (us)' is missing"),
        ("Stack,Count\na!b,1\n", {"counts": "cpu", "process": "x"}, "has no column of processes"),
        ("a;b 1\n", {"process": "x"}, "collapsed stacks do not name their process"),
        ("[truncated] 1\n", {}, "nt.collapsed: no stacks in it"),
    ],
)
def test_what_is_not_clear_is_refused_in_one_line(
    text: str, how: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        read(text, **how)
    assert "\n" not in str(caught.value)

"""What perf script prints, read back; and lines that it would never print."""

from hypothesis import given
from hypothesis import strategies as st

from dballoc.profile.model import Frame
from dballoc.profile.perf_script import Lost, Sampled, Switch, frame, parse, plain

TEXT = """\
my con 1/2 (x) 16440/16443 36498.245564687: PERF_RECORD_SWITCH IN         
mariadbd 16440/16443 36498.245574139: sched:sched_waking: comm=my con pid=16445 prio=139 target_cpu=001
\tffffffff813a88b4 try_to_wake_up ([kernel.kallsyms])
\t           86193 __GI___lll_lock_wake (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          1098eb clone3 (/usr/lib/x86_64-linux-gnu/libc.so.6)

        mariadbd 16440/16443 36498.245627459: sched:sched_wakeup: comm=c pid=16445 prio=139 target_cpu=001 ffffffff813a82d5 ttwu_do_activate ([kernel.kallsyms])
mariadbd 16440/16443 36498.245635221:   context-switches: 
\tffffffff821f8c03 schedule ([kernel.kallsyms])
\t          7a11f0 [unknown] (/opt/my (x)/bin/mariadbd (deleted))
\t            11d4 operator new(unsigned long) (/usr/lib/libstdc++.so.6.0.30)

mariadbd 16440/16443 36498.245700000: PERF_RECORD_SWITCH OUT preempt
mariadbd 16440/16443 36498.245700001: PERF_RECORD_LOST lost 123
"""


def test_the_lines_of_every_kind() -> None:
    into, waking, wakeup, switch, out, lost = parse(TEXT.splitlines(keepends=True))
    assert into == Switch(36498_245564687, 16443, out=False, preempted=False)
    assert isinstance(waking, Sampled)
    assert (waking.event, waking.pid, waking.tid, waking.target) == ("sched:sched_waking", 16440, 16443, 16445)
    assert [f.function for f in waking.stack] == ["clone3", "__lll_lock_wake", "try_to_wake_up"]
    assert waking.stack[-1].module == "[kernel]"
    assert isinstance(wakeup, Sampled)
    assert wakeup.target == 16445
    assert not wakeup.stack
    assert isinstance(switch, Sampled)
    assert switch.event == "context-switches"
    assert switch.stack == (
        Frame("operator new(unsigned long)", "libstdc++.so.6.0.30"),
        Frame("mariadbd+0x7a11f0", "mariadbd", named=False),
        Frame("schedule", "[kernel]"),
    )
    assert out == Switch(36498_245700000, 16443, out=True, preempted=True)
    assert lost == Lost(36498_245700001, 123)


def test_names_lose_what_is_not_theirs() -> None:
    assert plain("pthread_mutex_lock@@GLIBC_2.2.5") == "pthread_mutex_lock"
    assert plain("__GI___lll_lock_wait") == "__lll_lock_wait"
    assert plain("malloc@plt") == "malloc"
    assert frame("\t 1f nf_hook ([nf_tables])\n") == Frame("nf_hook", "[kernel]")
    assert frame("\t 1f [unknown] ([unknown])\n") == Frame("[unknown]+0x1f", "[unknown]", named=False)
    assert frame("\tffffffffffffffff [unknown] ([unknown])\n") is None
    assert frame("\t 1f (anonymous namespace)::f() ([vdso])\n") == Frame("(anonymous namespace)::f()", "[vdso]")


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\t"), max_size=15)
FUNCTIONS = st.text(st.sampled_from("ab:<>, ~()*&"), min_size=1, max_size=30).map(str.strip).filter(bool)


@given(WORDS.map(str.strip).filter(bool), st.lists(FUNCTIONS, max_size=5), st.integers(0, 10**15), st.booleans())
def test_whatever_threads_and_functions_are_called(comm: str, functions: list[str], time: int, out: bool) -> None:
    seconds = f"{time // 10**9}.{time % 10**9:09}"
    lines = [f"{comm} 7/8 {seconds}: context-switches: \n", *(f"\t  {i + 1:x} {f} (/bin/a)\n" for i, f in enumerate(functions))]
    lines += ["\n", f"{comm} 7/8 {seconds}: PERF_RECORD_SWITCH {'OUT' if out else 'IN'}\n"]
    sample, switch = parse(lines)
    assert sample == Sampled(time, 7, 8, "context-switches", 0, tuple(Frame(plain(f), "a") for f in reversed(functions)))
    assert switch == Switch(time, 8, out, preempted=False)


@given(st.lists(st.text()))
def test_no_line_is_a_surprise(lines: list[str]) -> None:
    for event in parse(lines):
        assert isinstance(event, Sampled | Switch | Lost)


@given(st.data())
def test_nor_is_a_line_that_was_broken(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(TEXT)))
    gone = data.draw(st.integers(0, 40))
    list(parse((TEXT[:at] + data.draw(st.text(max_size=5)) + TEXT[at + gone :]).splitlines(keepends=True)))

"""Stacks of threads that wait, and profiles of contention made of them."""

from dballoc.catalogue import waits as catalogue
from dballoc.profile.contention import waits
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.model import Frame, Profile, Sample

RULES = Rules(catalogue())


def stack(*functions: str) -> tuple[Frame, ...]:
    """``malloc@libc.so.6``; without a file it is the server's, in brackets the kernel's."""
    found = []
    for function in ("clone3", "start_thread", *functions):
        name, _, module = function.partition("@")
        kernel = name.startswith("[")
        found.append(Frame(name.strip("[]"), "[kernel]" if kernel else module or "mariadbd"))
    return tuple(found)


LOCK = stack(
    "do_command",
    "my_malloc",
    "malloc@libc.so.6",
    "__lll_lock_wait_private@libc.so.6",
    "[do_futex]",
    "[schedule]",
)


UNLOCK = stack(
    "do_command", "free@libc.so.6", "__lll_lock_wake_private@libc.so.6", "[try_to_wake_up]"
)


FAULT = stack(
    "do_command",
    "my_malloc",
    "malloc@libc.so.6",
    "sysmalloc@libc.so.6",
    "[asm_exc_page_fault]",
    "[schedule]",
)


CLIENT = stack("do_command", "vio_read", "recv@libc.so.6", "[unix_stream_recvmsg]", "[schedule]")


WORK = stack("do_command", "row_search_mvcc")


def profile(*rows: tuple[tuple[Frame, ...], float]) -> Profile:
    samples = []
    for functions, count in rows:
        kind = RULES.classify(functions)
        labels = {"wait": kind.group, "call": kind.call} | (
            {"malloc": kind.entry} if kind.entry else {}
        )
        samples.append(Sample(functions, (count, count / 1000, 0.0, 0.0), False, labels))
    return Profile(
        title="t",
        values=(waits.WAITS, waits.WAITED, waits.QUEUED, waits.PREEMPTED),
        samples=samples,
    )

"""A trace that says nothing of whose it is. Pure."""

from dataclasses import replace

from dballoc.trace.model import CompileFacts, Trace

REMOVED = (
    "names of threads, marks with the figures that were measured at them, the program's name, the "
    "malloc's settings, what the recorder noted in words"
)
LEFT = (
    "each block's size, alignment and touched pages; when and by which thread, by number, it is "
    "allocated and freed; the name and version of a well-known malloc, the page "
    "size, how long it was recorded"
)

# Beginnings of names of mallocs that tell of nobody.
_PUBLIC_MALLOCS = (
    *("glibc", "jemalloc", "mimalloc", "scudo", "tbbmalloc", "tcmalloc", "unknown"),
    *("libc.so", "libjemalloc", "libmimalloc", "libscudo", "libtbbmalloc", "libtcmalloc"),
)


def anonymise_trace(trace: Trace) -> Trace:
    """Return the trace without any text but a well-known malloc's name and version; its events
    stay.
    """
    allocator = trace.facts.allocator.rpartition("/")[2]
    public = allocator.startswith(_PUBLIC_MALLOCS)
    facts = replace(
        trace.facts,
        program="",
        allocator=allocator if public else "",
        allocator_version=trace.facts.allocator_version if public else "",
        settings=None,
        not_seen=(),
    )
    threads = tuple(replace(thread, name="") for thread in trace.threads)
    compiled: CompileFacts = replace(trace.compiled, history=(f"anonymised: without {REMOVED}",))
    return replace(trace, facts=facts, threads=threads, marks=(), compiled=compiled)

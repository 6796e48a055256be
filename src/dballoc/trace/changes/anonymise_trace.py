"""A trace that says nothing of whose it is. Pure."""

from dataclasses import replace

from dballoc.trace.model import CompileFacts, Trace

REMOVED = (
    "names of threads, marks with the figures that were measured at them, the program's name, what "
    "the recorder noted in words"
)
LEFT = (
    "each block's size, alignment and touched pages; when and by which thread, by number, it is "
    "allocated and freed; the malloc's name, the page size, how long it was recorded"
)


def anonymise_trace(trace: Trace) -> Trace:
    """Return the trace without every text but the malloc's name; what happens in it stays."""
    # The malloc's name is a path where it was not known; only a known one is no secret.
    allocator = trace.facts.allocator
    facts = replace(
        trace.facts,
        program="",
        allocator="" if "/" in allocator else allocator,
        not_seen=(),
    )
    threads = tuple(replace(thread, name="") for thread in trace.threads)
    compiled: CompileFacts = replace(trace.compiled, history=(f"anonymised: without {REMOVED}",))
    return replace(trace, facts=facts, threads=threads, marks=(), compiled=compiled)

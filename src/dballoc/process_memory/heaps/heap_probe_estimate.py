"""What a heap probe in the server knows of its live heap; who asks it
(:mod:`dballoc.profile.heap.live_heap`) is handed in.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dballoc.process_memory.process_snapshot import Outside

_LIBRARY = "libdballoc_probe.so"


@dataclass(frozen=True)
class Sampled:
    """``live``: bytes of all that is alive, with one standard ``error``, from so many ``samples``;
    ``parts``: functions and the bytes that they hold in small blocks which no instrument counts,
    the most first.
    """

    live: int
    error: float
    samples: int
    parts: tuple[tuple[str, int], ...]

    @property
    def source(self) -> str:
        """For a ledger's lines."""
        return f"heap probe, {self.samples:,} samples, ± {self.error / 2**20:.1f} MiB"


# Asks the probe of a process that was just looked at; None if there is none, or it cannot tell.
# Failure, UsageError.
Sample = Callable[[Outside], Sampled | None]


def nobody(look: Outside) -> None:
    """A :data:`Sample` that asks nobody."""
    del look


def has_probe(look: Outside) -> bool:
    """Whether the probe is in the process."""
    return any(_LIBRARY in mapping.path for mapping in look.mappings)

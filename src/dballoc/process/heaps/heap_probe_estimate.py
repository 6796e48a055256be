"""What a heap probe in the server estimates of its live heap. The function that asks the probe
(:mod:`dballoc.profile.heap.live_heap`) is passed in.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dballoc.process.snapshot import ProcessSnapshot

_LIBRARY = "libdballoc_probe.so"


@dataclass(frozen=True)
class ProbeEstimate:
    """The probe's estimate. ``live``: bytes of all live blocks, with its standard ``error`` in
    bytes, from that many ``samples``; ``parts``: functions, and the bytes that they hold in small
    blocks which no instrument counts, the largest first.
    """

    live: int
    error: float
    samples: int
    parts: tuple[tuple[str, int], ...]

    @property
    def source(self) -> str:
        """The source that a ledger's lines name."""
        return f"heap probe, {self.samples:,} samples, ± {self.error / 2**20:.1f} MiB"


# Asks the probe of the process of a snapshot; None if it has none, or the probe has no estimate.
# Failure, UsageError.
AskProbe = Callable[[ProcessSnapshot], ProbeEstimate | None]


def ask_no_probe(snapshot: ProcessSnapshot) -> None:
    """Return None: the sample of a process whose probe is not to be asked."""
    del snapshot


def has_probe(snapshot: ProcessSnapshot) -> bool:
    """Whether the probe is loaded in the process."""
    return any(_LIBRARY in mapping.path for mapping in snapshot.mappings)

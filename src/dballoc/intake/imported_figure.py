"""One measurement made elsewhere, and what a set of them must be. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from dballoc.errors import UsageError

# The machine of figures that name none.
HERE = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A workload at a number of client threads under a variant. ``place``: FILE:LINE, for messages;
    latencies in ms, ``rss`` in bytes: the highest seen; ``seconds``: how long it was measured. None
    is not known.
    """

    place: str
    workload: str
    threads: int
    variant: str
    tps: float
    machine: str = HERE
    block: int = 1
    qps: float | None = None
    p95: float | None = None
    p99: float | None = None
    rss: int | None = None
    seconds: float | None = None

    @property
    def identity(self) -> tuple[str, str, int, str, int]:
        """What there may be one of."""
        return self.machine, self.workload, self.threads, self.variant, self.block


def check(figures: Iterable[Figure]) -> None:
    """UsageError, ``FILE:LINE: …``, for the first one that is there twice, or in which nothing
    happened.
    """
    seen: dict[tuple[str, str, int, str, int], Figure] = {}
    for figure in figures:
        if not figure.tps > 0:
            raise UsageError(
                f"{figure.place}: 0 transactions per second: there is nothing to compare"
            )
        first = seen.setdefault(figure.identity, figure)
        if first is not figure:
            raise UsageError(
                f"{figure.place}: {figure.variant}, {figure.workload} at level {figure.threads} is "
                "there already, in "
                f"{first.place}; number repeats by block"
            )

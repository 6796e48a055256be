"""One measurement that was made elsewhere, and the checks of a set of them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from dballoc.ground.errors import UsageError

# The machine of figures that name none.
HERE = ""


@dataclass(frozen=True, kw_only=True)
class ImportedFigure:
    """The figures of a workload at a number of client threads under a variant. ``place``:
    FILE:LINE, for messages; latencies in ms; ``rss``: peak, bytes, and from a series of readings
    also the first, the mean and the last; ``private``: the most private bytes; ``seconds``: how
    long it was measured. None: not known.
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
    rss_start: int | None = None
    rss_mean: float | None = None
    rss_end: int | None = None
    private: int | None = None
    seconds: float | None = None

    @property
    def identity(self) -> tuple[str, str, int, str, int]:
        """The key, which only one figure may have."""
        return self.machine, self.workload, self.threads, self.variant, self.block


def choose_machine(
    figures: Iterable[ImportedFigure], variant: str, workload: str, machine: str | None, place: str
) -> str:
    """Return the machine that another file of a variant and workload is of: ``machine``, or, where
    the file does not say it, the only one with figures of them. UsageError, which begins with
    ``place``, if there are no such figures, or if several machines have some.
    """
    machines = dict.fromkeys(
        f.machine
        for f in figures
        if (f.variant, f.workload) == (variant, workload) and machine in (None, f.machine)
    )
    if not machines:
        on = f" on {machine}" if machine else ""
        raise UsageError(
            f"{place}: no transactions per second of {variant}, {workload}{on} among the figures; "
            "import them with it, under the same names"
        )
    if len(machines) > 1:
        raise UsageError(
            f"{place}: {variant}, {workload} ran on {len(machines)} machines; add a key machine: "
            f"{', '.join(machines)}"
        )
    return next(iter(machines))


def check_figures(figures: Iterable[ImportedFigure]) -> None:
    """Check that figures are unique and above 0. UsageError, ``FILE:LINE: …``, for the first that
    is not.
    """
    unique: dict[tuple[str, str, int, str, int], ImportedFigure] = {}
    for figure in figures:
        if not figure.tps > 0:
            raise UsageError(
                f"{figure.place}: 0 transactions per second: there is nothing to compare"
            )
        first = unique.setdefault(figure.identity, figure)
        if first is not figure:
            raise UsageError(
                f"{figure.place}: {figure.variant}, {figure.workload} at level {figure.threads} is "
                f"already in {first.place}; number repeats in the column block"
            )

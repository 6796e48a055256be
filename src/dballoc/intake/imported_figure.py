"""One measurement that was made elsewhere, and the checks of a set of them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dballoc.ground.errors import UsageError

# The machine of figures that name none.
HERE = ""


@dataclass(frozen=True, kw_only=True)
class ImportedFigure:
    """The figures of a workload at a number of client threads under a variant. ``place``:
    FILE:LINE, for messages; ``relative_to``: the variant whose throughput this one is divided by,
    where ``qps`` is a ratio; latencies in ms; ``rss``: peak, bytes, and from a series of readings
    also the first, the mean and the last; ``private``: the most private bytes; ``seconds``: how
    long it was measured. None: not known.
    """

    place: str
    workload: str
    threads: int | None
    variant: str
    machine: str = HERE
    block: int = 1
    tps: float | None = None
    qps: float | None = None
    relative_to: str | None = None
    p95: float | None = None
    p99: float | None = None
    rss: int | None = None
    rss_start: int | None = None
    rss_mean: float | None = None
    rss_end: int | None = None
    private: int | None = None
    seconds: float | None = None

    @property
    def identity(self) -> tuple[str, str, int | None, str, int]:
        """The key, which only one figure may have."""
        return self.machine, self.workload, self.threads, self.variant, self.block

    @property
    def level(self) -> str:
        """The level, for messages."""
        return "" if self.threads is None else f" at level {self.threads}"


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


def check_figures(figures: Sequence[ImportedFigure]) -> None:
    """Check that figures are unique, above 0 and of one kind. UsageError, ``FILE:LINE: …``, for the
    first that is not.
    """
    unique: dict[tuple[str, str, int | None, str, int], ImportedFigure] = {}
    for figure in figures:
        if not any(rate for rate in (figure.tps, figure.qps)):
            raise UsageError(
                f"{figure.place}: 0 transactions per second: there is nothing to compare"
            )
        first = unique.setdefault(figure.identity, figure)
        if first is not figure:
            raise UsageError(
                f"{figure.place}: {figure.variant}, {figure.workload}{figure.level} is already in "
                f"{first.place}; number repeats in the column block, or import the files apart"
            )
        _check_kind(figure, figures[0])


def _check_kind(figure: ImportedFigure, first: ImportedFigure) -> None:
    """Check that two figures can be compared."""
    if (figure.threads is None) != (first.threads is None):
        unstated, stated = (figure, first) if figure.threads is None else (first, figure)
        raise UsageError(
            f"{unstated.place}: under how many clients? {stated.place} says it of its figures; "
            "give it with threads in an import.toml, or import the files apart"
        )
    if figure.relative_to != first.relative_to or (figure.tps is None) != (first.tps is None):
        raise UsageError(
            f"{figure.place}: {_describe_kind(figure)}, but in {first.place} "
            f"{_describe_kind(first)}; import them apart"
        )


def _describe_kind(figure: ImportedFigure) -> str:
    if figure.relative_to is not None:
        return f"ratios to {figure.relative_to}"
    return "queries per second alone" if figure.tps is None else "transactions per second"

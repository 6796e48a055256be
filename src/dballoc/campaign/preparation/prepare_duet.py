"""Decide how this machine runs an experiment's duets: which halves of the CPUs, how many clients,
which variants.
"""

from dataclasses import dataclass

from dballoc.campaign.preparation.prepare_variant import MOST_DUET_CLIENTS
from dballoc.errors import UsageError
from dballoc.experiment.model import Experiment
from dballoc.host.resources import cpu_halves
from dballoc.host.settings import thp
from dballoc.load.sysbench_command import Sysbench

# A duet's clients for each CPU of a half: enough to keep it busy, too few to fight over locks.
_CLIENTS_PER_CPU = 4


@dataclass(frozen=True)
class PreparedDuet:
    """The duets of a campaign on this machine. ``thp``: for each partner the host's mode, and
    whether THP is switched off for the baseline and for the partner
    (:func:`dballoc.host.settings.thp.combine_modes`); ``left_out``: variants that cannot be in a
    duet, and why.
    """

    halves: cpu_halves.Halves
    threads: int
    thp: dict[str, tuple[str | None, bool, bool]]
    left_out: dict[str, str]


def prepare_duet(experiment: Experiment, sysbench: Sysbench) -> PreparedDuet:
    """Decide how this machine runs the experiment's duets. UsageError if it cannot."""
    for name in experiment.workloads:
        if sysbench.workload(name).ends:
            raise UsageError(
                f"{name}: this workload ends by itself, but a duet loads both servers without "
                "a break; use --design solo"
            )
        if sysbench.workload(name).replica:
            raise UsageError(
                f"{name}: a duet has a half of the CPUs for a server with its client, but a "
                "replica has a primary too; use --design solo"
            )
    if experiment.before:
        raise UsageError(
            "before: a duet has nothing but its load between two workloads; use --design solo"
        )
    if experiment.sequence == "fresh":
        raise UsageError(
            "sequence: a duet runs all workloads in one server start; use --design solo for a "
            "start of each"
        )
    halves = cpu_halves.choose_halves(experiment.cpu)
    threads = experiment.duet.threads or min(MOST_DUET_CLIENTS, _CLIENTS_PER_CPU * len(halves[0]))
    modes, left_out = _choose_thp_modes(experiment)
    if experiment.baseline in left_out:
        raise UsageError(
            f"baseline {experiment.baseline!r} cannot be in a duet: "
            f"{left_out[experiment.baseline]}; use --design solo"
        )
    return PreparedDuet(halves, threads, modes, left_out)


def _choose_thp_modes(
    experiment: Experiment,
) -> tuple[dict[str, tuple[str | None, bool, bool]], dict[str, str]]:
    """Return the fields ``thp`` and ``left_out`` of :class:`PreparedDuet`."""
    baseline = experiment.find(experiment.baseline)
    modes: dict[str, tuple[str | None, bool, bool]] = {}
    left_out: dict[str, str] = {}
    for variant in experiment.variant:
        modes_together = thp.combine_modes(baseline.thp, variant.thp, thp.read_mode())
        if modes_together is None:
            left_out[variant.name] = "the host cannot have THP always and madvise at once"
        elif variant.cpu is not None or baseline.cpu is not None:
            left_out[variant.name] = "it has CPUs of its own"
        else:
            modes[variant.name] = modes_together
    return modes, left_out

"""Decide how this machine runs an experiment's duets: which halves of the CPUs, how many clients,
which variants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dballoc.campaign.preparation.prepare_variant import MOST_DUET_CLIENTS
from dballoc.experiment.model import Experiment, Variant
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpu_halves
from dballoc.host.settings import thp
from dballoc.load.sysbench_command import Sysbench

# A duet's clients for each CPU of a half: enough to keep it busy, too few to fight over locks.
_CLIENTS_PER_CPU = 4


@dataclass(frozen=True)
class SharedHost:
    """What servers that are alive at once have of the host: its ``settings`` that are set
    (:mod:`dballoc.host.settings.thp`), and whether THP is switched off for each of them.
    """

    settings: Mapping[str, str]
    switched_off: tuple[bool, ...]


@dataclass(frozen=True)
class PreparedDuet:
    """The duets of a campaign on this machine. ``thp``: what each partner shares with the baseline;
    ``left_out``: variants that cannot be in a duet, and why.
    """

    cpus: cpu_halves.DuetCpus
    threads: int
    thp: dict[str, SharedHost]
    left_out: dict[str, str]


def prepare_duet(experiment: Experiment, sysbench: Sysbench) -> PreparedDuet:
    """Decide how this machine runs the experiment's duets. Raises UsageError if it cannot."""
    refuse_unsuitable_loads(experiment, sysbench, "a duet loads both servers")
    cpus = cpu_halves.choose_halves(experiment.cpu)
    usual = min(MOST_DUET_CLIENTS, _CLIENTS_PER_CPU * len(cpus.halves[0]))
    threads = experiment.duet.threads or usual
    modes, left_out = _choose_thp_modes(experiment)
    if experiment.baseline in left_out:
        raise UsageError(
            f"baseline {experiment.baseline!r} cannot be in a duet: "
            f"{left_out[experiment.baseline]}; use --design solo"
        )
    return PreparedDuet(cpus, threads, modes, left_out)


def refuse_unsuitable_loads(experiment: Experiment, sysbench: Sysbench, loads: str) -> None:
    """Raise UsageError for what servers that are loaded at once cannot run. ``loads``: the design
    with its verb, "a duet loads both servers".
    """
    for name in experiment.workloads:
        if sysbench.workload(name).ends:
            raise UsageError(
                f"{name}: this workload ends by itself, but {loads} without a break; use "
                "--design solo"
            )
        if sysbench.workload(name).replica:
            raise UsageError(
                f"{name}: {loads} at once, but a replica has a primary beside it; use --design solo"
            )
    if experiment.before:
        raise UsageError(f"before: {loads}, with nothing between two workloads; use --design solo")
    if experiment.sequence == "fresh":
        raise UsageError(
            f"sequence: {loads} with all workloads in one start; use --design solo for a start of "
            "each"
        )


def _choose_thp_modes(experiment: Experiment) -> tuple[dict[str, SharedHost], dict[str, str]]:
    """Return the fields ``thp`` and ``left_out`` of :class:`PreparedDuet`."""
    baseline = experiment.find(experiment.baseline)
    shared: dict[str, SharedHost] = {}
    left_out: dict[str, str] = {}
    for variant in experiment.variant:
        together = share_host([baseline, variant], thp.read_mode())
        if isinstance(together, str):
            left_out[variant.name] = together
        elif variant.cpu is not None or baseline.cpu is not None:
            left_out[variant.name] = "it has CPUs of its own"
        else:
            shared[variant.name] = together
    return shared, left_out


def share_host(variants: Sequence[Variant], mode: str | None) -> SharedHost | str:
    """Return the host's settings that variants share which are alive at once, the baseline first,
    or why they cannot. ``mode``: the host's own. Pure.
    """
    modes = thp.combine_modes([variant.thp for variant in variants], mode)
    if modes is None:
        return "the host cannot have THP always and madvise at once"
    details = [
        {name: value for name, value in variant.host_settings.items() if name != thp.SETTING}
        for variant in variants
    ]
    if any(other != details[0] for other in details):
        return "it has another thp_defrag or other thp_sizes than the baseline; the host has one"
    together, switched_off = modes
    if variants[0].thp_sizes and any(switched_off):
        return "it has another THP mode than the baseline; the host has one, with thp_sizes"
    settings = ({} if together is None else {thp.SETTING: together}) | details[0]
    return SharedHost(settings, switched_off)

"""Say which levels ran at two speeds, and why."""

from dballoc.analysis.two_speeds import TwoSpeeds
from dballoc.numbers import count, number, percent


def describe_two_speeds(levels: list[TwoSpeeds]) -> list[str]:
    """Return a sentence on each level, and what it means for all; nothing without such levels."""
    if not levels:
        return []
    return [
        *(
            f"{level.workload} with {count(level.threads, 'client')} ran at two speeds: "
            f"{number(level.near)} transactions a second, and {number(level.across)} in "
            f"{percent(level.share_across, 0)} of the seconds, in which each transaction had "
            f"{number(level.interrupts)} rescheduling interrupts: a client's thread and the "
            "server's thread that serves it woke each other across CPUs."
            for level in levels
        ),
        "The kernel decides which threads share a CPU, and changes it while a level runs. That is "
        "noise, and none of a malloc's doing. The duet's CPU per transaction is less affected: "
        "both of its servers meet the same kernel at the same time. With --server-cpus and "
        "--client-cpus apart, all wake-ups cross CPUs, which is slower but the same for all.",
    ]

"""Say which levels ran at two speeds, and why."""

from dballoc.analysis.two_speeds import TwoSpeeds
from dballoc.numbers import count, number, percent


def describe_two_speeds(levels: list[TwoSpeeds], *, has_clients_apart: bool = False) -> list[str]:
    """Return a sentence on each level, and what it means for all; nothing without such levels.
    ``has_clients_apart``: whether the clients ran on another host.
    """
    if not levels:
        return []
    if has_clients_apart:
        cause, remedy = "the server's threads were woken by other CPUs.", ""
    else:
        cause = (
            "a client's thread and the server's thread that serves it woke each other across CPUs."
        )
        remedy = (
            " With --server-cpus and --client-cpus apart, all wake-ups cross CPUs, which is slower "
            "but the same for all."
        )
    return [
        *(
            f"{level.workload} with {count(level.threads, 'client')} ran at two speeds: "
            f"{number(level.near)} transactions a second, and {number(level.across)} in "
            f"{percent(level.share_across, 0)} of the seconds, in which each transaction had "
            f"{number(level.interrupts)} rescheduling interrupts: {cause}"
            for level in levels
        ),
        "The kernel decides which threads share a CPU, and changes it while a level runs. That is "
        "noise, and none of a malloc's doing. The duet's CPU per transaction is less affected: "
        f"both of its servers meet the same kernel at the same time.{remedy}",
    ]

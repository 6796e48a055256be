"""Trees as below /sys/devices/system/cpu, of machines that are not here, and their /proc/stat."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dballoc.experiment.cpu_list import format_cpus


@dataclass(frozen=True, kw_only=True)
class TreeCore:
    """A core as the kernel would tell it. ``speed``: kHz at most, None: no such file; ``capacity``:
    the same as arm64 has it.
    """

    cpus: tuple[int, ...]
    node: int = 0
    package: int = 0
    speed: int | None = None
    capacity: int | None = None


def make_cores(
    *,
    sockets: int = 1,
    nodes: int = 1,
    cores: int = 4,
    threads: int = 1,
    speed: int | None = None,
) -> list[TreeCore]:
    """Cores of like kind, numbered as Linux does on a PC: the first threads of all cores, then the
    second ones. ``nodes``: of each socket; ``cores``: of each node.
    """
    total = sockets * nodes * cores
    return [
        TreeCore(
            cpus=tuple(number + total * thread for thread in range(threads)),
            node=number // cores,
            package=number // (cores * nodes),
            speed=speed,
        )
        for number in range(total)
    ]


# 256 CPUs: two sockets of 64 cores with two threads each.
TWO_SOCKETS = make_cores(sockets=2, cores=64, threads=2, speed=3_700_000)
# 224 CPUs: two sockets, each as four nodes (sub-NUMA clustering) of 14 cores.
SNC_4 = make_cores(sockets=2, nodes=4, cores=14, threads=2, speed=3_800_000)
# Eight performance cores with two threads each, of which two boost higher, and 16 efficiency cores.
HYBRID = [
    TreeCore(cpus=(2 * n, 2 * n + 1), speed=5_500_000 if n in (4, 5) else 5_200_000)
    for n in range(8)
] + [TreeCore(cpus=(16 + n,), speed=3_900_000) for n in range(16)]
# Four little and four big cores of arm64.
BIG_LITTLE = [TreeCore(cpus=(n,), capacity=446 if n < 4 else 1024) for n in range(8)]
# As an emulated machine with 16 CPUs, two nodes, two threads a core: siblings side by side.
EMULATED = [TreeCore(cpus=(2 * n, 2 * n + 1), node=n // 4, package=n // 4) for n in range(8)]

MACHINES: dict[str, Sequence[TreeCore]] = {
    "two sockets": TWO_SOCKETS,
    "SNC-4": SNC_4,
    "hybrid": HYBRID,
    "big and little": BIG_LITTLE,
    "emulated": EMULATED,
}


def list_cpus(cores: Iterable[TreeCore]) -> frozenset[int]:
    """All CPUs of these cores."""
    return frozenset(cpu for core in cores for cpu in core.cpus)


def write_tree(root: Path, cores: Iterable[TreeCore], offline: Iterable[int] = ()) -> Path:
    """Write the tree to ``root``, and return it. CPUs that are ``offline`` have a directory without
    a topology, and are no siblings of others.
    """
    unplugged = frozenset(offline)
    for core in cores:
        siblings = frozenset(core.cpus) - unplugged
        for cpu in core.cpus:
            home = root / f"cpu{cpu}"
            home.mkdir(parents=True)
            (home / "online").write_text(f"{int(cpu not in unplugged)}\n")
            if cpu in unplugged:
                continue
            (home / "topology").mkdir()
            texts = {
                "topology/thread_siblings_list": format_cpus(siblings),
                "topology/physical_package_id": str(core.package),
            }
            if core.speed is not None:
                (home / "cpufreq").mkdir()
                texts["cpufreq/cpuinfo_max_freq"] = str(core.speed)
            if core.capacity is not None:
                texts["cpu_capacity"] = str(core.capacity)
            for name, text in texts.items():
                (home / name).write_text(f"{text}\n")
            (home / f"node{core.node}").symlink_to(f"../../node/node{core.node}")
    return root


def format_stat(cpus: Iterable[int], idle: int = 100, steal: int = 1) -> str:
    """/proc/stat with so many ticks of each of these CPUs, which are online."""
    lines = [f"cpu{cpu} 10 0 5 {idle} 0 0 0 {steal} 0 0" for cpu in sorted(cpus)]
    return "\n".join(["cpu  10 0 5 100 0 0 0 1 0 0", *lines, "intr 1", "ctxt 5", "btime 1", ""])

"""An explanation as OpenMetrics text, for a scraper or node_exporter's textfile collector. Pure.

Format: https://github.com/OpenObservability/OpenMetrics, specification 1.0.0; what Prometheus reads
too.
"""

from collections.abc import Mapping, Sequence

from dballoc import catalogue
from dballoc.evidence.model import Evidence
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.configuration_limits import AvailableMemory, Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.verdicts.cgroup_limit import estimate_safe_pool
from dballoc.process.usage import ProcessUsage

Sample = tuple[Mapping[str, str], float]
# One number alone has no labels.
Samples = Sequence[Sample] | float
# Owners that have a series each: a server that is well has about thirty.
_MOST_OWNERS, _OTHERS = 150, "all others"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render_openmetrics(explanation: Explanation) -> str:
    """Return all figures, in base units."""
    ledger = explanation.ledger
    server = {
        "executable": ledger.executable,
        "malloc": ledger.malloc,
        "known_from": ",".join(ledger.tiers),
        "pid": str(ledger.pid),
    }
    return "".join(
        [
            "# TYPE dballoc_server info\n# HELP dballoc_server Which server this is about.\n",
            f"dballoc_server_info{_format_labels(server)} 1\n",
            *_format_ledger(ledger),
            *(_format_usage(explanation.usage) if explanation.usage else []),
            _format_room(explanation.room),
            *_format_cgroup(explanation.evidence),
            *_format_arenas(explanation.evidence),
            *_format_safe_pool(explanation),
            *(_format_bounds(explanation.bounds) if explanation.bounds else []),
            *_format_snapshot(explanation),
            "# EOF\n",
        ]
    )


def _format_ledger(ledger: Ledger) -> list[str]:
    memory = _sum_owners(ledger)
    return [
        _format_bytes("dballoc_rss", "Resident: the sum of memory and rest.", ledger.rss),
        _format_bytes(
            "dballoc_memory",
            "Resident memory by owner.",
            [({"group": group, "owner": owner}, size) for (group, owner), size in memory.items()],
        ),
        _format_bytes(
            "dballoc_rest",
            "Resident pages that no class claims; may be negative.",
            ledger.rest,
        ),
        _format_bytes(
            "dballoc_unowned",
            "Memory that no owner claims, unlabelled heap included.",
            ledger.unowned,
        ),
        _format_bytes(
            "dballoc_beside",
            "What RSS does not count.",
            [({"what": name}, size) for name, size in ledger.beside.items()],
        ),
    ]


def _sum_owners(ledger: Ledger) -> dict[tuple[str, str], int]:
    """Return resident bytes by group and owner; of a server that names very many, the smaller ones
    together, for each is a series in the scraper's database.
    """
    memory = ledger.sum_by_line()
    if len(memory) <= _MOST_OWNERS:
        return memory
    named = set(sorted(memory, key=lambda key: -memory[key])[:_MOST_OWNERS])
    bounded: dict[tuple[str, str], int] = {}
    for (group, owner), size in memory.items():
        key = group, owner if (group, owner) in named else _OTHERS
        bounded[key] = bounded.get(key, 0) + size
    return bounded


def _format_usage(usage: ProcessUsage) -> list[str]:
    return [
        _format_bytes("dballoc_vsz", "Address space.", usage.vsz),
        _format_bytes(
            "dballoc_vsz_reserved",
            "Address space that is accessible to nobody; part of dballoc_vsz.",
            usage.reserved,
        ),
        format_counter(
            "dballoc_cpu",
            "seconds",
            "CPU time since the process started, the kernel's included.",
            usage.cpu_seconds,
        ),
        format_gauge(
            "dballoc_cpu",
            "ratio",
            "CPU time per second since the process started, 1 = one CPU: ps's %CPU.",
            usage.cpu_share,
        ),
        format_gauge(
            "dballoc_running",
            "seconds",
            "How long the process has been running.",
            usage.running_seconds,
        ),
    ]


def _format_room(room: AvailableMemory) -> str:
    samples: list[Sample] = [({"of": "machine"}, room.machine)]
    if room.limit:
        samples.append(({"of": "cgroup"}, room.limit))
    return _format_bytes(
        "dballoc_room",
        "Available memory: the machine's, and the narrowest cgroup's limit.",
        samples,
    )


def _format_cgroup(evidence: Evidence) -> list[str]:
    cgroup = evidence.cgroup
    if cgroup is None:
        return []
    sizes = {
        "working_set": cgroup.working_set,
        "charged": cgroup.charged,
        "inactive_file": cgroup.inactive_file,
        **({"limit": cgroup.limit} if cgroup.limit is not None else {}),
        **({"high": cgroup.high} if cgroup.high is not None else {}),
    }
    return [
        _format_bytes(
            "dballoc_cgroup",
            "Memory of the narrowest cgroup above the server; working_set as the kubelet counts "
            "it; limit and high only where there are such.",
            [({"of": name}, size) for name, size in sizes.items()],
        ),
        format_counter(
            "dballoc_cgroup_events",
            "",
            "How often that cgroup met high or max, and oom_kill ended a process of it.",
            [
                ({"event": event}, cgroup.events[event])
                for event in ("high", "max", "oom", "oom_kill")
                if event in cgroup.events
            ],
        ),
        format_gauge(
            "dballoc_cgroup_pressure",
            "ratio",
            "Share of the time in which some, or all (full), of its tasks waited for memory.",
            [
                ({"kind": kind, "window": window}, value / 100)
                for (kind, _, window), value in (
                    (name.partition(" "), value) for name, value in cgroup.pressure.items()
                )
            ],
        ),
    ]


def _format_arenas(evidence: Evidence) -> list[str]:
    families = []
    if evidence.arenas:
        families.append(
            format_gauge("dballoc_arenas", "", "Arenas of glibc's malloc.", evidence.arenas)
        )
    if evidence.cpus:
        counts: list[Sample] = [
            ({"of": "machine"}, evidence.online_cpus),
            ({"of": "server"}, evidence.cpus.cpu_count),
        ]
        families.append(
            format_gauge(
                "dballoc_cpus", "", "CPUs that are online, and that the server may use.", counts
            )
        )
    return families


def _format_safe_pool(explanation: Explanation) -> list[str]:
    limits = catalogue.verdicts()
    safe = estimate_safe_pool(explanation.evidence, explanation.bounds, explanation.ledger, limits)
    if safe is None:
        return []
    sizes = {"safe": safe.pool, "configured": safe.configured, "filled": safe.filled}
    return [
        _format_bytes(
            "dballoc_pool",
            "InnoDB's buffer pool: as configured, filled, and an estimate of the largest that is "
            "safe under the cgroup's limit.",
            [({"of": name}, size) for name, size in sizes.items()],
        )
    ]


def _format_bounds(bounds: Bounds) -> list[str]:
    sizes = {
        "once": bounds.once,
        "connection": bounds.connection,
        "statement": bounds.statement,
        "plain": bounds.plain,
        "worst": bounds.worst,
    }
    return [
        _format_bytes(
            "dballoc_bound",
            "What the configuration allows, whatever is used.",
            [({"bound": bound}, size) for bound, size in sizes.items()],
        ),
        format_gauge(
            "dballoc_connections_max",
            "",
            "Connections that the bounds are computed for.",
            bounds.connections,
        ),
    ]


def _format_snapshot(explanation: Explanation) -> list[str]:
    return [
        format_gauge(
            "dballoc_verdict",
            "",
            "1 for each verdict of this snapshot.",
            [({"key": v.key, "level": v.level}, 1) for v in explanation.verdicts],
        ),
        format_gauge(
            "dballoc_taken_timestamp",
            "seconds",
            "When the snapshot was taken.",
            explanation.timestamp,
        ),
        format_gauge(
            "dballoc_look",
            "seconds",
            "How long reading the process from outside took.",
            explanation.seconds,
        ),
    ]


def _format_bytes(name: str, description: str, samples: Samples) -> str:
    return format_gauge(name, "bytes", description, samples)


def format_gauge(name: str, unit: str, description: str, samples: Samples) -> str:
    """Return a metric family of gauges; ``name`` without its ``unit``, which may be empty."""
    return _format_family("gauge", "", name, unit, description, samples)


def format_counter(name: str, unit: str, description: str, samples: Samples) -> str:
    """Return a metric family of counters; ``name`` without its ``unit`` and ``_total``."""
    return _format_family("counter", "_total", name, unit, description, samples)


def _format_family(
    kind: str, suffix: str, name: str, unit: str, description: str, samples: Samples
) -> str:
    """Return a family whose samples' names end with ``suffix``."""
    name = f"{name}_{unit}" if unit else name
    labelled = [({}, samples)] if isinstance(samples, int | float) else samples
    lines = [
        f"# TYPE {name} {kind}",
        *([f"# UNIT {name} {unit}"] if unit else []),
        f"# HELP {name} {description.translate(_ESCAPES)}",
        *(f"{name}{suffix}{_format_labels(labels)} {value!r}" for labels, value in labelled),
    ]
    return "\n".join(lines) + "\n"


def _format_labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""

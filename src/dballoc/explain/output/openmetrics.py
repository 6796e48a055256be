"""An explanation as OpenMetrics text, for a scraper or node_exporter's textfile collector. Pure.

Format: https://github.com/OpenObservability/OpenMetrics, specification 1.0.0; what Prometheus reads
too.
"""

from collections.abc import Mapping, Sequence

from dballoc.explain.attribution.configuration_limits import AvailableMemory, Bounds
from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.explanation import Explanation
from dballoc.process_memory.process_usage import ProcessUsage

Sample = tuple[Mapping[str, str], float]
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
            _format_info("dballoc_server", "Which server this is about.", server),
            *_format_ledger(ledger),
            *(_format_usage(explanation.usage) if explanation.usage else []),
            _format_room(explanation.room),
            *(_format_bounds(explanation.bounds) if explanation.bounds else []),
            *_format_snapshot(explanation),
            "# EOF\n",
        ]
    )


def _format_ledger(ledger: Ledger) -> list[str]:
    memory: dict[tuple[str, str], int] = {}
    for line in ledger.lines:
        key = line.group, str(line.owner)
        memory[key] = memory.get(key, 0) + line.resident
    return [
        _format_bytes("dballoc_rss", "Resident: the sum of memory and rest.", [({}, ledger.rss)]),
        _format_bytes(
            "dballoc_memory",
            "Resident memory by owner.",
            [({"group": group, "owner": owner}, size) for (group, owner), size in memory.items()],
        ),
        _format_bytes(
            "dballoc_rest",
            "Resident pages that no class claims; may be negative.",
            [({}, ledger.rest)],
        ),
        _format_bytes(
            "dballoc_unowned",
            "Memory that no owner claims, unlabelled heap included.",
            [({}, ledger.unowned)],
        ),
        _format_bytes(
            "dballoc_beside",
            "What RSS does not count.",
            [({"what": name}, size) for name, size in ledger.beside.items()],
        ),
    ]


def _format_usage(usage: ProcessUsage) -> list[str]:
    return [
        _format_bytes("dballoc_vsz", "Address space.", [({}, usage.vsz)]),
        _format_bytes(
            "dballoc_vsz_reserved",
            "Address space that is accessible to nobody; part of dballoc_vsz.",
            [({}, usage.reserved)],
        ),
        _format_counter(
            "dballoc_cpu",
            "seconds",
            "CPU time since the process started, the kernel's included.",
            usage.cpu_seconds,
        ),
        _format_gauge(
            "dballoc_cpu",
            "ratio",
            "CPU time per second since the process started, 1 = one CPU: ps's %CPU.",
            [({}, usage.cpu_share)],
        ),
        _format_gauge(
            "dballoc_running",
            "seconds",
            "How long the process has been running.",
            [({}, usage.running_seconds)],
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
        _format_gauge(
            "dballoc_connections_max",
            "",
            "Connections that the bounds are computed for.",
            [({}, bounds.connections)],
        ),
    ]


def _format_snapshot(explanation: Explanation) -> list[str]:
    return [
        _format_gauge(
            "dballoc_verdict",
            "",
            "1 for each verdict of this snapshot.",
            [({"key": v.key, "level": v.level}, 1) for v in explanation.verdicts],
        ),
        _format_gauge(
            "dballoc_taken_timestamp",
            "seconds",
            "When the snapshot was taken.",
            [({}, explanation.timestamp)],
        ),
        _format_gauge(
            "dballoc_look",
            "seconds",
            "How long reading the process from outside took.",
            [({}, explanation.seconds)],
        ),
    ]


def _format_bytes(name: str, description: str, samples: Sequence[Sample]) -> str:
    return _format_gauge(name, "bytes", description, samples)


def _format_gauge(name: str, unit: str, description: str, samples: Sequence[Sample]) -> str:
    name = f"{name}_{unit}" if unit else name
    lines = [
        f"# TYPE {name} gauge",
        *([f"# UNIT {name} {unit}"] if unit else []),
        f"# HELP {name} {description.translate(_ESCAPES)}",
        *(f"{name}{_format_labels(labels)} {value!r}" for labels, value in samples),
    ]
    return "\n".join(lines) + "\n"


def _format_counter(name: str, unit: str, description: str, value: float) -> str:
    name = f"{name}_{unit}"
    return (
        f"# TYPE {name} counter\n# UNIT {name} {unit}\n"
        f"# HELP {name} {description.translate(_ESCAPES)}\n{name}_total {value!r}\n"
    )


def _format_info(name: str, description: str, labels: Mapping[str, str]) -> str:
    return (
        f"# TYPE {name} info\n# HELP {name} "
        f"{description.translate(_ESCAPES)}\n{name}_info{_format_labels(labels)} 1\n"
    )


def _format_labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""

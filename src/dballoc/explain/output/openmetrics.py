"""An explanation as OpenMetrics text, for a scraper or node_exporter's textfile collector. Pure.

Format: https://github.com/OpenObservability/OpenMetrics, specification 1.0.0; what Prometheus reads
too.
"""

from collections.abc import Mapping, Sequence

from dballoc.explain.explanation import Explanation

Sample = tuple[Mapping[str, str], float]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def text(found: Explanation) -> str:
    """All figures are gauges, in base units."""
    ledger, bounds, room = found.ledger, found.bounds, found.room
    known = ",".join(ledger.tiers)
    who = {
        "executable": ledger.executable,
        "malloc": ledger.malloc,
        "known_from": known,
        "pid": str(ledger.pid),
    }
    memory: dict[tuple[str, str], int] = {}
    for line in ledger.lines:
        key = line.group, str(line.owner)
        memory[key] = memory.get(key, 0) + line.resident
    families = [
        _info("dballoc_server", "Which server was looked at.", who),
        _gauge("dballoc_rss", "bytes", "Resident: the sum of memory and rest.", [({}, ledger.rss)]),
        _gauge(
            "dballoc_memory",
            "bytes",
            "Resident memory by owner.",
            [({"group": group, "owner": owner}, size) for (group, owner), size in memory.items()],
        ),
        _gauge(
            "dballoc_rest",
            "bytes",
            "Resident pages that no class claims; may be negative.",
            [({}, ledger.rest)],
        ),
        _gauge(
            "dballoc_unowned",
            "bytes",
            "Memory that no owner claims, unlabelled heap included.",
            [({}, ledger.unowned)],
        ),
        _gauge(
            "dballoc_beside",
            "bytes",
            "What RSS does not count.",
            [({"what": k}, v) for k, v in ledger.beside.items()],
        ),
        _gauge(
            "dballoc_room",
            "bytes",
            "What there is: the machine's memory, the narrowest cgroup's limit.",
            [
                ({"of": "machine"}, room.machine),
                *([({"of": "cgroup"}, room.limit)] if room.limit else []),
            ],
        ),
    ]
    if bounds:
        sizes = {
            "once": bounds.once,
            "connection": bounds.connection,
            "statement": bounds.statement,
            "plain": bounds.plain,
            "worst": bounds.worst,
        }
        families += [
            _gauge(
                "dballoc_bound",
                "bytes",
                "What the configuration allows, whatever is used.",
                [({"bound": bound}, size) for bound, size in sizes.items()],
            ),
            _gauge(
                "dballoc_connections_max",
                "",
                "Connections that the bounds are of.",
                [({}, bounds.connections)],
            ),
        ]
    families += [
        _gauge(
            "dballoc_verdict",
            "",
            "1 for each verdict of this look.",
            [({"key": v.key, "level": v.level}, 1) for v in found.verdicts],
        ),
        _gauge("dballoc_taken_timestamp", "seconds", "When it was looked at.", [({}, found.taken)]),
        _gauge(
            "dballoc_look", "seconds", "How long looking from outside took.", [({}, found.seconds)]
        ),
    ]
    return "".join(families) + "# EOF\n"


def _gauge(name: str, unit: str, says: str, samples: Sequence[Sample]) -> str:
    name = f"{name}_{unit}" if unit else name
    lines = [
        f"# TYPE {name} gauge",
        *([f"# UNIT {name} {unit}"] if unit else []),
        f"# HELP {name} {says.translate(_ESCAPES)}",
    ]
    return (
        "\n".join([*lines, *(f"{name}{_labels(labels)} {value!r}" for labels, value in samples)])
        + "\n"
    )


def _info(name: str, says: str, labels: Mapping[str, str]) -> str:
    return (
        f"# TYPE {name} info\n# HELP {name} "
        f"{says.translate(_ESCAPES)}\n{name}_info{_labels(labels)} 1\n"
    )


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""

"""What InnoDB has in memory beyond its buffer pool, as a share of the pool: measured, beside the
rule of thumb that it takes 10 % more. Pure.
"""

from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.explain.sources.server_memory import LOGS, POOL, ServerMemory, parse_number
from dballoc.process_memory.mapping_kind import Kind

TITLE = "InnoDB beyond its buffer pool (rule of thumb: 10 % of the pool)"
_SOURCE = "the ledger"
# Owners of the ledger whose names do not begin with InnoDB's.
_AREA, _HASH_INDEX = "memory/innodb", "adaptive hash index"
# A pool's mapping that is larger by more than this share has something else in it.
_MOST_DESCRIPTORS = 0.25


def measure_innodb_beyond_pool(ledger: Ledger, labels: ServerMemory) -> Section:
    """Return the section: InnoDB's lines of the ledger beside the pool, and their share of it."""
    pool = parse_number(labels.variables, "innodb_buffer_pool_size")
    if not pool:
        return Section(title=TITLE, source=_SOURCE, missing="InnoDB is off, or not in this server")
    filled = labels.filled.get(POOL, 0)
    lines = _sum_innodb_lines(ledger)
    descriptors = _measure_descriptors(ledger, pool)
    if descriptors:
        lines["descriptors of the pool's pages, mapped with it"] = descriptors
    beyond = sum(lines.values())

    def row(name: str, size: int) -> tuple[Cell, ...]:
        return name, Bytes(size), f"{size / pool:.1%}"

    return Section(
        title=TITLE,
        source=_SOURCE,
        columns=("owner", "resident", "of the pool"),
        rows=[
            ("the pool, as configured", Bytes(pool), "100.0%"),
            row("filled of it", filled),
            *(row(owner, size) for owner, size in sorted(lines.items(), key=lambda x: -x[1])),
            row("beyond the pool, in all", beyond),
        ],
        note=_explain_gaps(ledger, labels),
    )


def _sum_innodb_lines(ledger: Ledger) -> dict[str, int]:
    """Return the resident bytes of InnoDB's owners beside the pool."""
    sizes: dict[str, int] = {}
    for line in ledger.lines:
        owner = str(line.owner)
        is_innodb = owner.startswith("InnoDB") or owner in (_AREA, _HASH_INDEX)
        if is_innodb and owner != POOL:
            sizes[owner] = sizes.get(owner, 0) + line.resident
    return sizes


def _measure_descriptors(ledger: Ledger, pool: int) -> int:
    """Return by how much the pool's own mapping is larger than configured, as far as that is
    resident: MySQL maps the descriptors of the pages with them.
    """
    mapped = sum(line.size for line in ledger.lines if line.owner == POOL)
    resident = sum(line.resident for line in ledger.lines if line.owner == POOL)
    more = mapped - pool
    return min(more, resident) if 0 < more <= _MOST_DESCRIPTORS * pool else 0


def _explain_gaps(ledger: Ledger, labels: ServerMemory) -> str | None:
    """Return what the sum leaves out, and why; None if nothing is known to be missing."""
    gaps = []
    if not labels.counted:
        gaps.append(
            "the memory instruments are off, so this is only what status and sizes tell of InnoDB"
        )
    owners = {line.owner for line in ledger.lines}
    if Kind.POOL in owners and LOGS not in owners:
        gaps.append("its log buffers are not told from the pool here")
    return "; ".join(gaps) or None

"""Results directories that no server made: whole campaigns, and the records that they consist
of.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dballoc.campaign.trial.trial_rows import COUNTERS, STEP_COUNTERS
from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.experiment.trial_steps import plan_steps
from dballoc.store.facts import (
    DuetFacts,
    Environment,
    Facts,
    ScatterComponents,
    SlicePlan,
    TurnsFacts,
)
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import (
    BlockRow,
    HostSampleRow,
    HostStepRow,
    IntervalRow,
    LedgerRow,
    MarkRow,
    MeasuredTrial,
    SampleRow,
    SliceRow,
    StepRow,
    TrialPart,
    TurnRow,
    VariantRow,
)

HOSTILE = (
    "<script>alert(1)</script> at /home/jane/build/dbhost7/x.so on dbhost7.acme.example | jane"
)
MIB = 2**20
# Writes more than SQLite's page cache holds, so that pages of the open transaction reach the file,
# then dies.
INTERRUPTED_WRITER = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.executemany("INSERT INTO campaign VALUES (?, ?)", [(f"k{i}", "x" * 1000) for i in range(2000)])
os.kill(os.getpid(), signal.SIGKILL)
"""

SIZES = {"glibc": 160 * MIB, "jemalloc": 150 * MIB, "tuned": 170 * MIB}

# What a pilot leaves.
DUET = DuetFacts(
    halves=("0", "1"),
    threads=4,
    scatter={"paired": 0.02, "undisturbed": 0.01},
    components={
        "oltp_read_only": ScatterComponents(
            start=0.004, slice=0.01, piece=0.02, halves=0.1, seconds=0.5
        )
    },
    plan=SlicePlan(
        slice=2.0,
        discard=0.5,
        pairs=2,
        blocks=6,
        block_seconds=20.0,
        half_width=0.01,
        confidence=0.99,
    ),
)
# Of results of which only the tables matter.
BARE_FACTS = Facts(
    dballoc="0.1.0",
    identity="x",
    experiment="",
    seed=1,
    started=1e9,
    environment=Environment(),
    designs=(Design.SOLO,),
    planned_blocks={"solo": 1},
    duet=DuetFacts(),
)

Make = Callable[..., Path]


def facts(experiment: Experiment, planned: int, designs: list[str]) -> Facts:
    return replace(
        BARE_FACTS,
        experiment=experiment_file.format_experiment(experiment),
        planned_blocks=dict.fromkeys(designs, planned),
        environment=Environment(
            host="dbhost7.acme.example",
            user="jane",
            cpu="a CPU",
            cpus=2,
            cores=2,
            memory=2**34,
            swap=0,
        ),
        sysbench="1.0.20",
        server_user="jane",
        designs=tuple(map(Design, designs)),
        duet=DUET if "duet" in designs else DuetFacts(),
        turns=TurnsFacts(seconds=0.2 if "turns" in designs else 0.0),
    )


def variant(name: str) -> VariantRow:
    return VariantRow(
        name=name,
        allocator=name,
        allocator_version="1",
        libraries=json.dumps(["/home/jane/lib/lib.so"]),
        environment=json.dumps({"LD_PRELOAD": "/home/jane/lib/lib.so", "A": "/home/jane/a"}),
        server="MariaDB 10.11.1",
        server_version="10.11.1",
        engine="innodb",
        command=json.dumps(["/opt/acme/mariadbd", "--datadir=DATA"]),
        pool_bytes=128 * MIB,
        thp=None,
    )


def host_counters(seconds: float) -> dict[str, Any]:
    """What a host of two CPUs counts in so many seconds: 60 % user, 20 % system, 20 % others."""
    return {
        "user": 1.2 * seconds,
        "system": 0.4 * seconds,
        "idle": 0.2 * seconds,
        "iowait": 0.1 * seconds,
        "steal": 0.1 * seconds,
        "switches": round(5000 * seconds),
    }


def record(experiment: Experiment, slot: schedule.Slot) -> TrialRecord:
    """A trial as a server would leave it, with figures that differ a little from block to block."""
    wobble = 1 + 0.002 * ((slot.block * 7 + slot.position * 3) % 5)
    size = int(SIZES[slot.variant] * wobble)
    found = TrialRecord(
        trial=MeasuredTrial(
            started=1.0,
            ended=20.0,
            seconds_planned=9.0,
            outcome="ok",
            thp="madvise",
            cpus="0-1",
            rss_start=100 * MIB,
            rss_peak=size,
            rss_idle=size - MIB,
            exit_status=0,
        )
    )
    clock = 1.0
    for step in plan_steps(experiment, slot):
        if step.kind == "profile":
            continue  # files alone
        seconds = step.seconds or 0.1
        load = step.kind in ("warmup", "level")
        tps = 1000.0 * wobble * (step.threads or 0)
        found.rows.append(
            StepRow(
                step=step.number,
                kind=step.stored_kind,
                workload=step.workload,
                threads=step.threads,
                t=clock,
                seconds=seconds,
                tps=tps if load else None,
                qps=tps * 16 if load else None,
                **dict.fromkeys(("p50", "p95", "p99", "p999"), 3.0 * wobble if load else None),
                window=seconds,
                window_events=int(tps * seconds) if load else None,
                cpu=1.0,
                cpu_user=0.8,
                cpu_system=0.2,
                voluntary=100,
                involuntary=5,
                # Counters that only steps have, a new one included.
                **dict.fromkeys(set(STEP_COUNTERS) - set(COUNTERS), 400_000),
                rss_start=size,
                rss_mean=float(size),
                rss_peak=size,
                rss_end=size,
            )
        )
        found.rows.append(
            HostStepRow(
                step=step.number, seconds=seconds, own_cpu=0.02 * seconds, **host_counters(seconds)
            )
        )
        for second in range(int(seconds) + 1):
            now = clock + second
            found.rows.append(HostSampleRow(step=step.number, t=now, **host_counters(now)))
            found.rows.append(
                SampleRow(
                    step=step.number,
                    t=clock + second,
                    rss=size,
                    vsz=9 * size,
                    reserved=size,
                    swap=0,
                    cpu=clock + second,
                    cpu_user=clock + second,
                    cpu_system=0.0,
                    minor_faults=0,
                    major_faults=0,
                    threads=9,
                    voluntary=0,
                    involuntary=0,
                )
            )
            if load and second:
                found.rows.append(
                    IntervalRow(
                        step=step.number,
                        t=clock + second,
                        seconds=1.0,
                        threads=step.threads or 0,
                        events=int(tps),
                        queries=int(tps * 16),
                        latency=3.0,
                        errors=0,
                        reconnects=0,
                    )
                )
        clock += seconds + 1.5
        found.rows.append(
            MarkRow(
                step=step.number,
                t=clock - 0.1,
                rss=size,
                pss=size,
                anon_huge=0,
                reserved=0,
                read_only=0,
                mappings=99,
            )
        )
    live = int((0.5 if slot.variant == "glibc" else 0.0) * size)
    found.rows += [
        LedgerRow(line=n, part=part, owner=owner, resident=resident, size=resident)
        for n, (part, owner, resident) in enumerate(
            [
                ("heap", "live heap, small blocks", live),
                ("heap", "allocator, and unnamed mappings", size // 2 - live),
                ("server", "buffer pool and log buffers", size // 2),
                ("rest", "rest", size - 2 * (size // 2)),
            ]
        )
        if resident or part == "rest"
    ]
    return found


def duet_record(experiment: Experiment, pairing: schedule.Pairing, side: int) -> TrialRecord:
    """One side of a duet; the partner costs 3 % less and a little more or less from block
    to block.
    """
    found = record(
        experiment,
        schedule.Slot(
            block=pairing.block, attempt=0, position=pairing.position, variant="glibc", role="A1"
        ),
    )
    found.rows = []
    cost = 0.97 + 0.002 * (pairing.block % 3) if side else 1.0
    for workload in experiment.workloads:
        for number in range(4):
            half = (side + number + pairing.half) % 2
            found.rows += [
                SliceRow(
                    workload=workload,
                    slice=number,
                    piece=piece,
                    half=half,
                    t=3.0 + 2 * number + piece / 2,
                    seconds=0.5,
                    queries=800,
                    events=50.0,
                    cpu=0.2 * cost * (1 + 0.1 * half),
                    idle=0.01,
                )
                for piece in range(3)
            ]
    found.rows += list_host_steps(experiment)
    return found


def list_host_steps(experiment: Experiment) -> list[TrialPart]:
    """What the host did while each workload ran beside several servers, of it 4 % of one CPU for
    dballoc.
    """
    return [
        HostStepRow(step=number, seconds=2.0, own_cpu=0.08, **host_counters(2.0))
        for number in range(1, len(experiment.workloads) + 1)
    ]


def turns_record(experiment: Experiment, rotation: schedule.Rotation, number: int) -> TrialRecord:
    """One server of a rotation: the baseline's end 100 and 104 transactions in a turn, the others
    110.
    """
    name, role = rotation.servers[number]
    place = schedule.Slot(
        block=rotation.block, attempt=0, position=rotation.position, variant=name, role=role
    )
    found = record(experiment, place)
    found.rows = [
        TurnRow(
            workload=workload,
            round=turn,
            place=rotation.order_round(turn).index(number),
            t=1.0 + turn,
            seconds=0.2,
            transactions={"A1": 100, "A2": 104, "V": 110}[role],
        )
        for workload in experiment.workloads
        for turn in range(3)
    ] + list_host_steps(experiment)
    return found


def fault() -> TrialRecord:
    return TrialRecord(
        trial=MeasuredTrial(
            started=1.0,
            ended=2.0,
            seconds_planned=0.0,
            outcome="fault",
            fault="died",
            fault_text=HOSTILE,
            exit_status=-11,
            log_tail=HOSTILE,
        )
    )


def block_row(design: str, number: int, disturbed: str | None = None) -> BlockRow:
    return BlockRow(
        design=design, block=number, attempt=0, started=1.0, ended=9.0, steal=0.0, others=0.5,
        probe_before=0.07, probe_after=0.07, disturbed=disturbed,
    )  # fmt: skip


def build(
    directory: Path, chosen: Experiment, blocks: int, sql: tuple[str, ...], faulty: tuple[str, ...]
) -> Path:
    """A whole campaign, then changed by ``sql`` behind dballoc's back."""
    directory.mkdir()
    designs: list[str] = ["solo", "duet"] if chosen.design == "both" else [chosen.design or "solo"]
    results = Results.create(
        directory, facts(chosen, blocks, designs), [variant(v.name) for v in chosen.variant]
    )
    for block in range(1, blocks + 1):
        for p in schedule.order_duets(chosen, block) if "duet" in designs else []:
            sides = [
                fault() if n in faulty else duet_record(chosen, p, i)
                for i, n in enumerate((chosen.baseline, p.variant))
            ]
            results.add_trial(p, *sides)
        for slot in schedule.order_block(chosen, block) if "solo" in designs else []:
            results.add_trial(slot, fault() if slot.variant in faulty else record(chosen, slot))
        for r in (
            schedule.order_rotations(chosen, block, in_pairs=False) if "turns" in designs else []
        ):
            results.add_trial(
                r,
                *(
                    fault() if name in faulty else turns_record(chosen, r, i)
                    for i, (name, _) in enumerate(r.servers)
                ),
            )
        for design in designs:
            results.add(block_row(design, block))
    results.close()
    db = sqlite3.connect(directory / "results.sqlite")
    db.execute("PRAGMA ignore_check_constraints = ON")
    for statement in sql:
        db.execute(statement)
    db.commit()
    db.close()
    return directory

"""``dballoc bench``: run the comparison."""

from typing import Annotated

from dballoc.cli.bench_parts.bench_flags import Run
from dballoc.cli.shared import flags
from dballoc.cli.shared.field_flags import Changes, takes_flags
from dballoc.experiment.model import Experiment


@takes_flags(
    [
        ("experiment", "named", "scale", "allocators", "preload", "sweep", "like"),
        flags.SERVER,
        ("defaults_file", "login_path", "server.connect"),
        ("workloads", "threads", "load.options", "load.prepared_statements"),
        ("design", "levels", "sequence"),
        flags.TABLES,
        ("data.directory", "data.sql", "data.database"),
        ("time.warmup", "time.level", "time.idle"),
        ("cpu.count", "cpu.server", "cpu.client", "limits.memory"),
        ("profile", "profile_at", "record", "limit", "counters"),
        ("blocks", "noise.repeats", "budget", "extend", "seed"),
        ("out", "ray", "prefer", "margin", "report", "measure_only", "dry_run", "print_"),
    ],
)
def bench(
    source: flags.ExperimentSource, changes: Annotated[Changes, Experiment], run: Run
) -> None:
    """Compare allocators under a real server. With no argument: the demo, ten minutes on two cores.

    The same command resumes what was interrupted. Flags are laid over the experiment file.
    """
    from dballoc.cli.bench_parts.run_bench import run_bench  # here: --help needs none of it

    run_bench(source, changes, run)

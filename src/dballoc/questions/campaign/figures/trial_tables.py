"""Build the tables of what trials showed as a whole: memory and who holds it, how far replicas were
behind, what dballoc itself cost.
"""

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.experiment.trial_steps import KEEPS_UP
from dballoc.questions.compare.campaign_tables import Campaign, add_virtual_size
from dballoc.questions.compare.measures import IDLE, PEAK

# What is averaged over a variant's trials.
_MEANS = [
    "start", "peak", "load_mean", "idle", "pss", "anon_huge", "growth", "vsz_peak", "vsz_growth",
]  # fmt: skip


def build_memory_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, in bytes, means over its good trials: ``start``, ``peak``,
    ``load_mean``, ``idle``, ``growth`` (the end of the load less the start), ``vsz_peak`` (as
    :func:`dballoc.questions.compare.campaign_tables.add_virtual_size` has VSZ), ``vsz_growth`` (of
    VSZ without reserved address space), ``peak_to_pool`` (null without a cache), ``pss``,
    ``anon_huge`` (both at the end of the load), ``n`` trials.
    """
    pool = campaign.variant.select(variant="name", pool="pool_bytes")
    rows = (
        build_trial_table(campaign)
        .group_by("variant")
        .agg(
            pl.col(_MEANS).mean(),
            n=pl.len(),
        )
        .join(pool, on="variant", how="left")
        .with_columns(peak_to_pool=pl.col("peak") / pl.col("pool"))
        .drop("pool")
    )
    order = pl.Enum(campaign.names)
    return (
        rows.with_columns(pl.col("variant").cast(order))
        .sort("variant")
        .with_columns(pl.col("variant").cast(pl.String))
    )


def build_trial_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row a good trial: block, variant, role, the columns of :func:`build_memory_table`
    except ``peak_to_pool`` and ``n``, and ``virtual_growth``: of VSZ as ``vsz_peak`` has it.
    """
    samples = add_virtual_size(campaign.of(campaign.sample))
    levels = campaign.of(campaign.step).filter(kind="level").select("trial", "step")
    load = samples.join(levels, on=["trial", "step"], how="semi")
    usable = pl.col("vsz") - pl.col("reserved")
    of_samples = (
        load.group_by("trial")
        .agg(
            load_mean=pl.col("rss").mean(),
            load_end=pl.col("rss").sort_by("t").last(),
            usable_end=usable.sort_by("t").last(),
            virtual_end=pl.col("virtual").sort_by("t").last(),
        )
        .join(
            samples.group_by("trial").agg(
                usable_start=usable.sort_by("t").first(),
                virtual_start=pl.col("virtual").sort_by("t").first(),
                vsz_peak=pl.col("virtual").max(),
            ),
            on="trial",
        )
        .join(_select_last_marks(campaign, levels), on="trial", how="left")
    )
    return (
        campaign.good.select(
            "trial", "block", "variant", "role", start="rss_start", peak=PEAK.trial, idle=IDLE.trial
        )
        .join(of_samples, on="trial", how="left")
        .with_columns(
            growth=pl.col("load_end") - pl.col("start"),
            vsz_growth=pl.col("usable_end") - pl.col("usable_start"),
            virtual_growth=pl.col("virtual_end") - pl.col("virtual_start"),
        )
    )


def _select_last_marks(campaign: Campaign, levels: pl.DataFrame) -> pl.DataFrame:
    marks = campaign.of(campaign.mark).join(levels, on=["trial", "step"], how="semi")
    return marks.group_by("trial").agg(
        pss=pl.col("pss").sort_by("t").last(), anon_huge=pl.col("anon_huge").sort_by("t").last()
    )


_ORDER = {
    part: number for number, part in enumerate(("server", "heap", "threads", "files", "rest"))
}


def build_ledger_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row an owner and variant: ``part``, ``owner``, ``variant``, ``resident`` and
    ``size`` in bytes, means over its good trials (an owner that a trial does not have counts as 0);
    by part, the largest owners first. Empty where no trial has a ledger.
    """
    rows = campaign.of(campaign.ledger)
    trials = rows.group_by("variant").agg(n=pl.col("trial").n_unique())
    return (
        rows.group_by("part", "owner", "variant")
        .agg(pl.col("resident", "size").sum())
        .join(trials, on="variant")
        .with_columns(pl.col("resident", "size") / pl.col("n"))
        .with_columns(
            most=pl.col("resident").max().over("part", "owner"),
            place=pl.col("part").replace_strict(_ORDER),
        )
        .sort("place", -pl.col("most"), "owner", "variant")
        .select("part", "owner", "variant", "resident", "size")
    )


def build_replica_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row a workload, level and variant, over its good trials: ``primary_tps`` and
    ``tps``, means of what the primary committed and the replica applied a second; ``behind``,
    ``lag`` (s), ``waited`` (s) and ``left_behind``, the largest; of ``trials``, in how many the
    replica was ``late``. Empty without replicas.
    """
    levels = campaign.of(campaign.step.filter(kind="level")).join(
        campaign.replica, on=["trial", "step"], how="inner"
    )
    return (
        levels.group_by("workload", "threads", "variant", maintain_order=True)
        .agg(
            pl.col("primary_tps", "tps").mean(),
            pl.col("behind", "lag", "waited", "left_behind").max(),
            late=(pl.col("lag") > KEEPS_UP).sum(),
            trials=pl.len(),
        )
        .sort("workload", "threads", maintain_order=True)
    )


def compute_own_cpu(campaign: Campaign) -> pl.DataFrame:
    """Return one row a design, workload and level: the CPU time of dballoc's own processes while
    the load ran, as the share ``of_machine`` of all CPUs' time, ``of_cpu`` of one CPU's, and
    ``each`` of one CPU's by client that a server served at once: ``clients``. Steps of all trials
    with a load count.
    """
    facts, e = campaign.facts, campaign.experiment
    steps = campaign.step.filter(kind="level").select("trial", "step", "workload", "threads")
    threads = {Design.DUET: 2 * facts.duet.threads, Design.TURNS: max(e.threads, default=0)}
    names = pl.DataFrame({"step": range(1, len(e.workloads) + 1), "workload": e.workloads})
    frames = [campaign.trial.select("trial", "design").join(steps, on="trial", how="inner")]
    frames += [
        trials.select("trial", "design").join(names, how="cross").with_columns(threads=threads[d])
        for d, trials in ((Design.DUET, campaign.duet), (Design.TURNS, campaign.rotation))
    ]
    columns = ["design", "trial", "step", "workload", pl.col("threads").cast(pl.Int64)]
    total = pl.sum_horizontal("user", "system", "idle", "iowait", "steal")
    return (
        pl.concat([frame.select(columns) for frame in frames])
        .join(campaign.host_step, on=["trial", "step"], how="inner", maintain_order="left")
        .filter(pl.col("own_cpu").is_not_null(), pl.col("seconds") > 0, total > 0)
        .group_by("design", "workload", clients="threads", maintain_order=True)
        .agg(
            of_machine=pl.col("own_cpu").sum() / total.sum(),
            of_cpu=pl.col("own_cpu").sum() / pl.col("seconds").sum(),
        )
        .with_columns(each=pl.col("of_cpu") / pl.col("clients"))
        .sort("design", "workload", "clients", descending=[True, False, False])
    )

"""What was made smaller, what stands for what, what has no stand-in, and which mallocs dballoc's
authors have not tried: said at the top of every report.
"""

from dballoc.experiment import scale
from dballoc.experiment.durations_and_sizes import format_duration, format_size
from dballoc.experiment.model import Experiment, Scaled
from dballoc.experiment.post import Post
from dballoc.ground.numbers import listing
from dballoc.questions.compare.campaign_tables import Campaign


def list_scaling_notes(campaign: Campaign) -> list[str]:
    """Return sentences on scaling and stand-ins; none for a campaign at full scale with all it asks
    for. What a post states is left out: it is in
    :mod:`dballoc.questions.published.setup.post_note`.
    """
    return [
        *_describe_scaling(campaign),
        *_describe_stand_ins(campaign),
        *_describe_not_settable(campaign),
        *list_missing(campaign.experiment),
        *_describe_untried(campaign),
    ]


def _describe_scaling(campaign: Campaign) -> list[str]:
    e, was = campaign.experiment, campaign.experiment.scaled
    if was is None:
        return []
    words = _describe_scale(e, was) if e.post else listing(_list_scaled(campaign, was))
    end = "Its figures are not those of the full scale."
    return [f"Scaled to {was.factor:g} of {e.name}: {words}. {end}"]


def _describe_scale(experiment: Experiment, was: Scaled) -> str:
    """Return how what the note on the post calls scaled was made smaller."""
    limit = (
        f"; the server's limit of memory by the same, and then {format_size(scale.OWN_MEMORY)} "
        "more for what does not shrink"
        if experiment.limits.memory
        else ""
    )
    return (
        f"rows, caches, logs and times by this factor, clients by its fourth root, "
        f"{was.factor**scale.LEVEL_POWER:.2g}{limit}. No cache or redo log was made smaller than "
        f"{format_size(scale.LEAST_CACHE)}, no log buffer than "
        f"{format_size(scale.LOGS['innodb_log_buffer_size'])}, no other file or buffer than "
        f"{format_size(scale.LEAST_FILE)}, no time than 1s"
    )


def _list_scaled(campaign: Campaign, was: Scaled) -> list[str]:
    """Return what is smaller, and what it was."""
    e = campaign.experiment
    sizes = [size for size in campaign.variant["pool_bytes"].to_list() if size]
    cache = (
        [f"cache {format_size(max(sizes))} instead of {format_size(was.memory)}"]
        if (was.memory and sizes)
        else []
    )
    cpus = [f"CPUs {_format_cpus(campaign)} instead of {was.cpus}"] if was.cpus else []
    return [
        f"{e.data.rows:,} rows a table instead of {was.rows:,}",
        *cache,
        f"clients {_format_levels(e.threads)} instead of {_format_levels(was.threads)}",
        f"levels of {format_duration(e.time.level)} instead of {format_duration(was.level)}",
        *cpus,
    ]


def _format_levels(threads: list[int]) -> str:
    return str(threads[0]) if len(threads) == 1 else f"{threads[0]} to {threads[-1]}"


def _format_cpus(campaign: Campaign) -> str:
    e = campaign.experiment
    counts = sorted(
        {cpu.count for cpu in (e.cpu, *(v.cpu for v in e.variant if v.cpu)) if cpu.count}
    )
    if counts:
        return ", ".join(map(str, counts))
    return f"server {e.cpu.server}, client {e.cpu.client}"


def _describe_stand_ins(campaign: Campaign) -> list[str]:
    post = campaign.experiment.post
    if post is not None and post.server and post.variants:
        return []
    replacements = [f"{stand_in} for {original}" for stand_in, original in list_stand_ins(campaign)]
    return [f"Stand-ins for what cannot be had: {listing(replacements)}."] if replacements else []


def _describe_not_settable(campaign: Campaign) -> list[str]:
    """Return a sentence for each variant that leaves out something of its original, unless the post
    describes it: the note on the post has it.
    """
    post = campaign.experiment.post or Post()
    return [
        f"{variant.name} is without what no option here sets: {listing(variant.not_settable)}."
        for variant in campaign.experiment.variant
        if variant.not_settable and variant.name not in post.variants
    ]


def _describe_untried(campaign: Campaign) -> list[str]:
    """Return a sentence for each variant whose allocator was built from the user's archive."""
    return [
        f"{name}: not tried by dballoc's authors: its allocator was built from an archive by "
        f"{build}."
        for name, build in campaign.facts.untried.items()
    ]


def list_missing(experiment: Experiment) -> list[str]:
    """Return a sentence for each thing of the published comparison that nothing stands for."""
    return [f"Nothing stands for {name}: {why}." for name, why in experiment.no_stand_in.items()]


def list_stand_ins(campaign: Campaign) -> list[tuple[str, str]]:
    """Return (what ran here, what it takes the place of), each once."""
    rows = {r["name"]: r for r in campaign.variant.iter_rows(named=True)}
    replacements: dict[tuple[str, str], None] = {}
    for variant in campaign.experiment.variant:
        row = rows[variant.name]
        if was := campaign.experiment.server_of(variant).stands_for:
            replacements[row["server"], was] = None
        if variant.stands_for:
            name = " ".join(filter(None, [row["allocator"], row["allocator_version"]]))
            replacements[
                f"{name} ({variant.name})" if row["allocator"] != variant.name else name,
                variant.stands_for,
            ] = None
    return list(replacements)

"""The report of ``dballoc fit``: the largest cache that survives, in words, as tables, as CSV and
as JSON.
"""

from dataclasses import replace
from typing import Any

from dballoc.document.charts import (
    AMOUNTS,
    GREY_POINTS,
    POINTS,
    Variants,
    draw,
    draw_points,
    encode_names,
    make_axis,
    make_chart,
    make_tips,
)
from dballoc.document.model import (
    Answer,
    Column,
    Document,
    Figure,
    Section,
    Table,
    VariantLine,
    tabulate,
)
from dballoc.experiment import cache_size_search
from dballoc.experiment.durations_and_sizes import format_duration, format_size
from dballoc.ground.numbers import NOTHING, count, listing, mebibytes, number, percent, with_unit
from dballoc.questions.campaign.sections import machine_and_variants
from dballoc.questions.campaign.sections.shared_sections import (
    list_logs,
    list_servers,
    make_environment_section,
)
from dballoc.questions.fit.figures import Fits, VariantFit
from dballoc.questions.published.setup.post_note import compose_post_note

_SEARCH = {
    None: "not over yet",
    "found": "found",
    "none": "no size survived",
    "all": "every size survived",
    "faults": "given up",
}


def gather_fit_report(fits: Fits) -> Document:
    """Return the report of a fit."""
    campaign, sizes, described = fits.campaign, tabulate_sizes(fits), describe_fits(fits)
    # What fits beside each other; the page has the rest.
    narrow = sizes.drop_columns("RSS seen at the kill, MiB", "transactions/s")
    rows = described["variants"]
    return Document(
        title=f"dballoc fit: {campaign.experiment.name}",
        subtitle=(
            f"{list_servers(campaign)} · {count(len(fits.probes), 'trial')} in "
            f"{with_unit(fits.of.memory)} · {campaign.environment.cpu}"
        ),
        names=[f.variant for f in fits.fitted],
        answer=answer_fit(fits),
        sections=_make_sections(fits, sizes),
        screen=[Section(key="", title="", tables=[replace(narrow, title="", caption="")])],
        data_name="fit",
        data=described,
        csv=lambda: {
            "fit": [list(rows[0]), *(list(row.values()) for row in rows)],
            "fit_trials": list_trial_rows(fits),
        },
    )


def _make_sections(fits: Fits, sizes: Table) -> list[Section]:
    campaign = fits.campaign
    return [
        Section(
            key="sizes",
            title="What survives",
            figures=[draw_cache_against_rss(fits, Variants([f.variant for f in fits.fitted]))],
            tables=[sizes],
        ),
        Section(
            key="trials",
            title="Every trial",
            tables=[tabulate_trials(fits)],
            listings=list_logs(
                campaign, lambda r: f"Log of {r['variant']}, round {r['block']}: {r['fault']}"
            ),
        ),
        make_environment_section(
            campaign,
            machine_and_variants.tabulate_environment(campaign),
            machine_and_variants.tabulate_variants(campaign),
        ),
        Section(key="method", title="Method", text=describe_method(fits)),
    ]


def answer_fit(fits: Fits) -> Answer:
    """Return the answer in words."""
    survivors = sorted((f for f in fits.fitted if f.largest), key=lambda f: -(f.largest or 0))
    sizes_by_variant = listing(
        [f"{_format_cache_size(f.largest)} under {f.variant}" for f in survivors]
    )
    options = listing(list(dict.fromkeys(_name_option(f) for f in fits.fitted)))
    memory = f"With {with_unit(fits.of.memory)} for the server"
    if survivors:
        headline = f"{memory}, {options} survives up to {sizes_by_variant}"
    else:
        headline = f"{memory}, no size of {options} has survived"
    return Answer(
        headline=headline,
        reason=_explain_answer(fits),
        against="What to set",
        variants=[VariantLine(f.variant, advise(f)) for f in fits.fitted],
        post=compose_post_note(fits.campaign),
        notes=list_notes(fits),
    )


def _explain_answer(fits: Fits) -> str:
    repeats = count(fits.of.repeats, "trial")
    if not fits.over:
        return "The search is not over; run the same command to resume it."
    if any(f.state.why != "found" for f in fits.fitted):
        return (
            f"Every size that survived did so in {repeats} without an OOM kill; not every search "
            f"found the limit. {explain_survival(fits.of.repeats)}"
        )
    return (
        f"Each survived {repeats} without an OOM kill, and the next size, "
        f"{format_size(fits.of.tolerance)} more, was killed. {explain_survival(fits.of.repeats)}"
    )


# The share of trials that dballoc proposes to ask for, where fewer are shown to survive.
_WISHED_SURVIVAL = 0.8


def explain_survival(repeats: int) -> str:
    """Return what so many trials without a kill show of the next ones, and how to ask for more."""
    least = percent(cache_size_search.compute_least_survival(repeats), 0)
    more = cache_size_search.count_trials_for_survival(_WISHED_SURVIVAL)
    further = f"; --repeats {more} shows {percent(_WISHED_SURVIVAL, 0)}" if more > repeats else ""
    return (
        f"That shows, with {percent(cache_size_search.SURVIVAL_CONFIDENCE, 0)} confidence, that at "
        f"least {least} of such trials survive{further}."
    )


def advise(fitted: VariantFit) -> str:
    """Return what one variant's figures mean for a server of one's own."""
    killed = f"{_format_cache_size(fitted.killed)} was killed"
    rss_at_kill = f"{_format_rss(fitted.last)} of RSS"
    match fitted.state.why:
        case "none":
            return f"nothing survives: even {killed}, at {rss_at_kill}"
        case "faults":
            return "given up: too many trials ended in a fault that says nothing about memory"
    if not fitted.largest:
        return f"nothing has survived yet; {killed}" if fitted.killed else "nothing is known yet"
    largest, peak = _format_cache_size(fitted.largest), _format_rss(fitted.peak)
    text = f"{_name_option(fitted)} = {largest}: peak RSS {peak}"
    text += f", {fitted.ratio:.2f} times the cache" if fitted.ratio else ""
    if fitted.killed:
        text += f"; {killed}, at {rss_at_kill}"
    elif fitted.state.why == "all":
        text += "; no larger size was tried: it is all the memory"
    return text


def list_notes(fits: Fits) -> list[str]:
    """Return what to know before one relies on the answer."""
    sentences = []
    if unfilled := [f.variant for f in fits.fitted if not f.filled]:
        sentences.append(
            f"The load did not fill the cache under {listing(unfilled)}: peak RSS is below its "
            "size, so the true limit is lower once it is full. Give more data (--rows) or more "
            "time (--time)."
        )
    sentences.append(
        "This holds for this load and this duration. Leave room for what else a server does: more "
        "connections, sorts, backups, fragmentation over weeks."
    )
    return sentences


def describe_method(fits: Fits) -> list[str]:
    """Return the paragraphs on the method."""
    e, of = fits.campaign.experiment, fits.of
    load = listing(e.workloads)
    return [
        f"Each server ran alone in a memory cgroup of {with_unit(of.memory)} without swap, on a "
        f"copy of the same data, with {load} at {listing([str(t) for t in e.threads])} clients "
        f"for {format_duration(e.time.level)} each. A size is killed if the kernel killed the "
        "server for its memory in one trial; all larger ones count as killed too. It survives "
        f"after {count(of.repeats, 'trial')} without that. Sizes are multiples of "
        f"{with_unit(of.tolerance)}; the first is "
        f"{with_unit(of.nearest(of.start) * of.tolerance)}.",
        "The next size is a guess: the size that just uses up the memory, if the server needs as "
        "much beside the cache as it did at the largest size that survived. Where two such guesses "
        "did not halve the range that is left, it is the middle of that range. A round runs one "
        "trial of every "
        f"variant whose search goes on, in an order drawn from seed {e.seed}, so that drift hits "
        "all alike.",
        "RSS at the edge may lie a little under or over the limit: a cgroup counts the kernel's "
        "own memory for the server too, and leaves out file pages that another process had read "
        "before, like those of the server's own executable. RSS at a kill is the highest that was "
        "seen, at most about a second before it.",
    ]


_SIZES = (
    Column("variant"),
    Column("largest that survives", "largest", format_size),
    Column("smallest killed", "killed", format_size),
    Column("peak RSS there, MiB", "peak", mebibytes),
    Column("peak RSS ÷ cache", "ratio", "{:.2f}".format),
    Column("RSS seen at the kill, MiB", "last", mebibytes),
    Column("transactions/s", "tps", number),
    Column("killed", lambda fitted: f"{fitted.kills} of {fitted.trials}"),
    Column("search", lambda fitted: _SEARCH[fitted.state.why], words=True),
)


def tabulate_sizes(fits: Fits) -> Table:
    """Return the answer as a table."""
    options = listing(list(dict.fromkeys(_name_option(f) for f in fits.fitted)))
    caption = (
        f"Sizes of {options} with {with_unit(fits.of.memory)} for the server. Peak RSS, its ratio "
        "to the cache and transactions per second: at the largest size that survives. Killed: "
        "trials with an OOM kill, of all."
    )
    return tabulate("What survives", _SIZES, fits.fitted, caption=caption)


_TRIALS = (
    Column("round"),
    Column("variant"),
    Column("size", "requested", format_size),
    Column(
        "size it had",
        lambda row: (
            "as asked" if row["pool"] in (None, row["requested"]) else format_size(row["pool"])
        ),
        words=True,
    ),
    Column("outcome", words=True),
    Column("peak RSS, MiB", "peak", mebibytes),
    Column("transactions/s", "tps", number),
    Column("what happened", "text", words=True),
)


def tabulate_trials(fits: Fits) -> Table:
    """Return one row a trial. What happened is the campaign's text, which may be redacted."""
    texts = {
        (r["block"], r["variant"]): r["fault_text"] or None
        for r in fits.campaign.trials.iter_rows(named=True)
    }
    rows = [vars(p) | {"text": texts.get((p.round, p.variant))} for p in fits.probes]
    return tabulate("Every trial", _TRIALS, rows, heads=2)


def describe_fits(fits: Fits) -> dict[str, Any]:
    """Return the fit as plain data; sizes in bytes."""
    return {
        "memory": fits.of.memory,
        "tolerance": fits.of.tolerance,
        "repeats": fits.of.repeats,
        "least_survival": cache_size_search.compute_least_survival(fits.of.repeats),
        "over": fits.over,
        "variants": [
            {
                "variant": f.variant,
                "option": f.option,
                "largest": f.largest,
                "smallest_killed": f.killed,
                "peak_rss": f.peak,
                "ratio": f.ratio,
                "rss_at_kill": f.last,
                "tps": f.tps,
                "kills": f.kills,
                "trials": f.trials,
                "search": f.state.why,
                "filled": f.filled,
            }
            for f in fits.fitted
        ],
    }


def list_trial_rows(fits: Fits) -> list[list[Any]]:
    """Return the rows of ``fit_trials.csv``, the headings first."""
    columns = ["round", "variant", "asked", "pool", "outcome", "fault", "peak", "tps"]
    trials = [
        [getattr(p, "requested" if column == "asked" else column) for column in columns]
        for p in fits.probes
    ]
    return [columns, *trials]


def _name_option(fitted: VariantFit) -> str:
    return fitted.option.replace("-", "_")


def _format_cache_size(size: int | None) -> str:
    return NOTHING if size is None else format_size(size)


def _format_rss(size: int | None) -> str:
    return "unknown" if size is None else with_unit(size)


_HEIGHT = 320
_WORDS = {"survived": "survived", "killed": "killed", "other": "another fault"}
_SHAPES = {"survived": "circle", "killed": "cross", "another fault": "triangle-up"}


def draw_cache_against_rss(fits: Fits, variants: Variants) -> Figure:
    """Draw every trial; one without any sample is left out."""
    rows = [
        {
            "variant": p.variant,
            "size": p.size / 2**20,
            "rss": p.peak / 2**20,
            "outcome": _WORDS[p.outcome],
            "words": f"{mebibytes(p.peak)} MiB with {mebibytes(p.size)} MiB of cache, "
            f"{_WORDS[p.outcome]}",
        }
        for p in fits.probes
        if p.peak is not None
    ]
    x = make_axis("size", "cache, MiB", {"zero": True}, **AMOUNTS)
    y = make_axis("rss", "peak RSS, MiB", {"zero": True}, **AMOUNTS)
    layers = [
        draw([{"rss": fits.of.memory / 2**20}], "rule", style="reference", y=y),
        draw_points(
            rows, 90, opacity=0.9, x=x, y=y, **variants.encode_color(POINTS),
            shape=encode_names("outcome", _SHAPES, list(_SHAPES.values()), legend=GREY_POINTS),
            tooltip=make_tips({"variant": "", "words": "a trial"}),
        ),
    ]  # fmt: skip
    caption = f"A point is a trial. The line is the memory limit, {mebibytes(fits.of.memory)} MiB."
    return Figure(
        "fit",
        "Cache against peak RSS",
        caption,
        make_chart(_HEIGHT, layers),
    )

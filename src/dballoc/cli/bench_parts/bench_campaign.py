"""The campaign of ``dballoc bench``: prepared, described, run."""

from dataclasses import replace
from pathlib import Path

from dballoc.allocators import host_requirements
from dballoc.campaign.looks import Extension
from dballoc.campaign.preparation import prepare
from dballoc.campaign.results_directory import choose_results_directory
from dballoc.campaign.run_blocks import CampaignKind
from dballoc.campaign.ways.servers import SERVERS, estimate_duration
from dballoc.campaign.ways.way import DurationEstimate
from dballoc.cli.shared import perform_campaign
from dballoc.cli.shared.campaign_display import minutes
from dballoc.cli.shared.safe_output import Console, say
from dballoc.experiment.cpu_list import format_cpus
from dballoc.experiment.model import Experiment
from dballoc.ground.numbers import listing
from dballoc.questions.campaign.answer import conditions_and_preference
from dballoc.questions.campaign.answer.conditions_and_preference import Preference


def read_preference(text: str | None, model: Experiment) -> Preference:
    """Return the preference of --prefer. Raises UsageError if the experiment does not have its
    words.
    """
    preferred = conditions_and_preference.parse_preference(text)
    conditions_and_preference.check_preference(
        preferred, [v.name for v in model.variant], model.workloads, bool(model.time.idle)
    )
    return preferred


def prepare_setting(experiment: Experiment, margin: str | None) -> prepare.PreparedCampaign:
    """Check everything that the campaign needs, and its --margin. Raises UsageError for what it
    cannot run with.
    """
    share = conditions_and_preference.parse_margin(margin)
    return replace(prepare.prepare_campaign(experiment), margin=share)


def choose_directory(out: Path | None, setting: prepare.PreparedCampaign) -> Path:
    """Return the results directory: ``out``, or a new one below dballoc-results."""
    return choose_results_directory(out, setting.experiment)


def run_campaign(
    setting: prepare.PreparedCampaign,
    out: Path | None,
    preferred: Preference,
    report: bool,
    extension: Extension | None = None,
    kind: CampaignKind = SERVERS,
) -> None:
    """Run the campaign, or go on with it, and print the answer. ``out``: the results directory; a
    new one if None.
    """
    perform_campaign.perform(
        setting,
        choose_directory(out, setting),
        Console(),
        preference=preferred,
        report=report,
        extension=extension,
        kind=kind,
    )


def measure_campaign(setting: prepare.PreparedCampaign, out: Path | None) -> None:
    """Run the campaign, or go on with it, without judging it. ``out`` as in
    :func:`run_campaign`.
    """
    perform_campaign.measure(setting, choose_directory(out, setting), Console(), SERVERS)


def describe_time(plan: DurationEstimate, extension: Extension | None) -> str:
    """Return the lines on trials and time: of the campaign, or of the extension alone."""
    planned = extension.missing if extension else plan.blocks
    blocks = " and ".join(f"{n} {d} blocks of {plan.ways[d].trials}" for d, n in planned.items())
    trials = sum(n * plan.ways[d].trials for d, n in planned.items())
    time = (
        f"about {minutes(extension.seconds)}"
        if extension
        else f"about {minutes(plan.seconds)}, {plan.measured_share:.0%} of it measuring, "
        "warming up or idling on purpose"
    )
    return f"trials:  {trials} ({blocks})\ntime:    {time}"


def describe_load(experiment: Experiment) -> str:
    """Return the line on workloads and levels, and on numbers of CPUs, if there are several."""
    parts = [experiment.cpu_of(part.variant[0]).count for part in experiment.split_by_cpus()]
    on_cpus = f"; on {listing([str(n) for n in parts])} CPUs" if len(parts) > 1 else ""
    levels = listing([str(n) for n in experiment.threads])
    return f"load:    {listing(experiment.workloads)}; {levels} clients{on_cpus}"


def print_plan(setting: prepare.PreparedCampaign, extension: Extension | None = None) -> None:
    """Print what the campaign, or its extension, would take, and each variant as it would run."""
    plan = estimate_duration(setting)
    say(describe_load(setting.experiment))
    say(describe_time(plan, extension))
    say(f"memory:  about {setting.memory_needed / 2**20:,.0f} MiB")
    say(f"disk:    about {setting.disk_needed / 2**20:,.0f} MiB in the cache")
    if setting.duet:
        cpus = setting.duet.cpus
        halves = " and ".join(format_cpus(half) for half in cpus.halves)
        apart = f", clients on {format_cpus(cpus.clients)}" if cpus.clients_apart else ""
        pilot = (
            f"; a pilot of about {plan.pilot:.0f} s sets slices and blocks" if plan.pilot else ""
        )
        say(f"duet:    CPUs {halves}{apart}, {setting.duet.threads} clients a side{pilot}")
    if setting.no_duet:
        say(f"no duet: {setting.no_duet}")
    if setting.turns:
        alive = "in pairs" if setting.turns.in_pairs else "all servers at once"
        clients, length = max(setting.experiment.threads), setting.experiment.turns.length
        say(f"turns:   {alive}, {clients} clients each, {length:g} s a turn")
    if setting.no_turns:
        say(f"no turns: {setting.no_turns}")
    if setting.experiment.counters:
        events = ", ".join(event.name for event in setting.countable.events) or "none"
        say("; ".join(filter(None, [f"counts:  {events}", setting.countable.refusal])))
    for name, prepared in setting.variants.items():
        libraries = prepared.env.get("LD_PRELOAD", "no preload")
        # dballoc's own settings, beside the variant's.
        by_variant = host_requirements.find_rseq_setting(prepared.variant.env)
        rseq = None if by_variant else host_requirements.find_rseq_setting(prepared.env)
        values = {
            **prepared.variant.tunables,
            **prepared.variant.env,
            **({host_requirements.RSEQ: rseq} if rseq else {}),
            **prepared.variant.server.options,
        }
        settings = "".join(f", {key}={value}" for key, value in values.items())
        say(
            f"variant: {name}: {prepared.build.title} {prepared.server.engine}, "
            f"{prepared.malloc_title} ({libraries}){settings}"
        )

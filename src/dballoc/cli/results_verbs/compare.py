"""``dballoc compare``: two results directories against each other."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc import catalogue
from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.document.terminal import print_sections
from dballoc.ground.errors import Failure, UsageError

_MEASURES = [m["condition"] for m in catalogue.measures()["measure"].values() if "condition" in m]

First = Annotated[Path, typer.Argument(metavar="DIR1", help="The results directory before.")]
Second = Annotated[Path, typer.Argument(metavar="DIR2", help="The results directory after.")]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Exit with status 1 if this is shown for any variant, like 'rss > 1.05' or "
        f"'jemalloc:p99 >= 1.1': DIR2 ÷ DIR1 of {', '.join(_MEASURES)}; VARIANT: and "
        "WORKLOAD: may stand before "
        "it; may be given again.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Also fail where a condition is not shown to be false."),
]
Judged = Annotated[
    Literal["relative", "absolute"] | None,
    typer.Option(
        "--ratio",
        help="What to judge: ratios relative to each campaign's own baseline, or of the "
        "figures themselves; "
        "default: relative where both have the same baseline.",
    ),
]


def compare(
    first: First,
    second: Second,
    fail_if: FailIf = None,
    strict: Strict = False,
    judged: Judged = None,
    as_json: flags.AsJson = False,
) -> None:
    """Compare two campaigns: what is paired and what is not, ratios with intervals and verdicts,
    and a gate for CI.
    """
    # polars and scipy take a while to import, which no other verb should wait for.
    from dballoc.questions.campaign.answer import conditions_and_preference
    from dballoc.questions.compare.campaign_tables import load_unimported_campaign
    from dballoc.questions.diff import answer as said
    from dballoc.questions.diff import figures

    conditions = [
        conditions_and_preference.parse_condition(text, "--fail-if") for text in fail_if or []
    ]
    if strict and not conditions:
        raise UsageError("--strict only goes with --fail-if")
    campaigns = [load_unimported_campaign(directory) for directory in (first, second)]
    for directory, campaign in zip((first, second), campaigns, strict=True):
        if not campaign.trials.height:
            raise UsageError(f"{directory}: no trial is finished yet; run dballoc bench first")
    variants = dict.fromkeys(name for c in campaigns for name in c.names)
    workloads = dict.fromkeys(w for c in campaigns for w in c.experiment.workloads)
    for condition in conditions:
        conditions_and_preference.check_condition(condition, variants, workloads, "--fail-if")
    try:
        comparison = figures.compare_campaigns(campaigns[0], campaigns[1], judged)
    except ValueError as error:
        raise UsageError(f"--ratio relative: there is no common baseline: {error}") from None
    outcomes = [figures.judge_condition(comparison, condition) for condition in conditions]
    sides = said.Side(first, campaigns[0]), said.Side(second, campaigns[1])
    if as_json:
        print_json(said.describe_comparison(comparison, sides, outcomes, strict))
    else:
        sections = said.make_diff_sections(comparison, sides, outcomes, strict)
        print_sections(Console(highlight=False), sections)
    if complaint := said.describe_failed_conditions(outcomes, strict):
        raise Failure(complaint)

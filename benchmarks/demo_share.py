"""Where the wall time of a campaign went, and the share of it in which servers were under load.

    python benchmarks/demo_share.py DIR

The load is what clients were asked to do. Two shares are printed: of levels and of the duet's
slices, with the beginnings of slices that do not count; and of these with warm-ups and the pilot. A
duet's two servers are under load at the same time, which counts once. The rest is making data,
starting, proving, scanning the tables, connecting, idling, stopping, and the noise probe. A
campaign that was interrupted and resumed counts its pause as wall time. The exit status is 1 if the
first share misses the target of 75 %.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dballoc.experiment.model import USUAL_DISCARD
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign

TARGET = 0.75


class Phase(NamedTuple):
    """A part of the wall time: whether servers were under ``load`` then, whether that was
    ``measured`` load, with what is discarded of it, and whether it was ``counted``.
    """

    design: str
    name: str
    seconds: float
    load: bool = False
    measured: bool = False
    counted: bool = False


def split_solo(campaign: Campaign) -> list[Phase]:
    """Split the solo trials; what the steps do not explain is connecting, samples and the stop."""
    trials, time = campaign.trial, campaign.experiment.time
    steps = campaign.step.join(trials.select("trial"), on="trial")
    kinds = {kind: steps.filter(pl.col("kind") == kind) for kind in ("sql", "warmup", "level")}
    start = float(steps.group_by("trial").agg(pl.col("t").min())["t"].sum())
    idle = float(steps.filter(pl.col("kind") == "idle")["seconds"].sum())
    phases = [
        Phase("solo", "copying data, start, proof", start),
        Phase("solo", "warm-up SQL", float(kinds["sql"]["seconds"].sum())),
        Phase("solo", "warm-up", kinds["warmup"].height * time.warmup, load=True),
        Phase(
            "solo",
            "levels",
            kinds["level"].height * time.level,
            load=True,
            measured=True,
            counted=True,
        ),
        Phase("solo", "idle", idle),
    ]
    total = float((trials["ended"] - trials["started"]).sum())
    rest = total - sum(phase.seconds for phase in phases)
    return [*phases, Phase("solo", "connecting, samples, stop", rest)]


def split_duets(campaign: Campaign, design: str, trials: pl.DataFrame) -> list[Phase]:
    """Split the trials of the duet or of its pilot, each pairing once."""
    plan = campaign.facts.duet.plan
    discard = plan.discard if plan else campaign.experiment.duet.discard or USUAL_DISCARD
    pairings = trials.group_by("directory").agg(
        first=pl.col("started").min(), last=pl.col("ended").max()
    )
    total = float((pairings["last"] - pairings["first"]).sum())
    spans = (
        campaign.slice.join(trials.filter(pl.col("role") == "A1"), on="trial")
        .group_by("trial", "workload")
        .agg(
            begin=pl.col("t").min() - discard,
            end=(pl.col("t") + pl.col("seconds")).max(),
            counted=pl.col("seconds").sum(),
        )
    )
    played, counted = float((spans["end"] - spans["begin"]).sum()), float(spans["counted"].sum())
    warmup = spans.height * campaign.experiment.duet_warmup
    stop = total - float(spans.group_by("trial").agg(pl.col("end").max())["end"].sum())
    is_duet = design == "duet"
    return [
        Phase(
            design, "copying data, start, proof, SQL, connecting", total - played - warmup - stop
        ),
        Phase(design, "warm-up", warmup, load=True),
        Phase(design, "slices, discarded", played - counted, load=True, measured=is_duet),
        Phase(design, "slices, counted", counted, load=True, measured=is_duet, counted=is_duet),
        Phase(design, "stop", stop),
    ]


def split_wall_time(campaign: Campaign) -> list[Phase]:
    """Return the phases of a campaign, which add up to its wall time."""
    began = campaign.facts.started
    trials = campaign.trials
    phases = [Phase("", "making and checking data", float(trials["started"].min()) - began)]  # type: ignore[arg-type]
    for design, of_design in (("pilot", campaign.pilot), ("duet", campaign.duet)):
        if of_design.height:
            phases += split_duets(campaign, design, of_design)
    if campaign.trial.height:
        phases += split_solo(campaign)
    wall = float(trials["ended"].max()) - began  # type: ignore[arg-type]
    rest = wall - sum(phase.seconds for phase in phases)
    return [*phases, Phase("", "between trials: noise probe, storing, interim verdicts", rest)]


def main() -> int:
    """Read the store and print."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    campaign = load_campaign(Path(sys.argv[1]))
    if not campaign.trials.height:
        print("no trial yet")
        return 2
    phases = split_wall_time(campaign)
    wall = sum(phase.seconds for phase in phases)
    print(f"{campaign.trials.height} servers in {wall:.0f} s of wall time")
    for phase in phases:
        mark = "load" if phase.load else ""
        share = f"{phase.seconds:6.1f} s  {phase.seconds / wall:6.1%}"
        print(f"{share}  {mark:4}  {phase.design:5}  {phase.name}")
    loaded = sum(phase.seconds for phase in phases if phase.load)
    measured = sum(phase.seconds for phase in phases if phase.measured)
    counted = sum(phase.seconds for phase in phases if phase.counted)
    print(f"{counted:6.1f} s  {counted / wall:6.1%}  counted: levels, and slices of the duet")
    print(f"{measured:6.1f} s  {measured / wall:6.1%}  levels and slices, discards included")
    print(f"{loaded:6.1f} s  {loaded / wall:6.1%}  all load: warm-ups and the pilot too")
    met = measured / wall >= TARGET
    print(f"target: at least {TARGET:.0%}: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

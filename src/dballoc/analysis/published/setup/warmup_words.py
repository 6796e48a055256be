"""A server's warm-up in the words of a post: ``a scan of every table``, ``oltp_read_only for
10m``, ``settling for 2m``. Pure.
"""

import re
from collections.abc import Iterator

from dballoc.analysis.published.setup.release_names import drop_remarks
from dballoc.experiment.durations_and_sizes import format_duration, parse_duration
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import Step, plan_steps

SCAN = "a scan of every table"
_SCAN_STATEMENT = re.compile(r"SELECT AVG\(id\) FROM sbtest\d+ FORCE KEY \(PRIMARY\)")


def describe_warmups(experiment: Experiment) -> list[str]:
    """Return what warms the servers up, in its order. What the starts of several workloads have in
    common is told once.
    """
    warmups: list[str] = []
    lowest = experiment.model_copy(update={"threads": experiment.threads[:1]})
    for workload in experiment.workloads if experiment.sequence == "fresh" else [None]:
        once = list(_describe_start(lowest, workload))
        warmups += once if not warmups else [text for text in once if text not in warmups]
    return warmups


def _describe_start(experiment: Experiment, workload: str | None) -> Iterator[str]:
    slot = Slot(
        block=1,
        attempt=0,
        position=1,
        variant=experiment.baseline,
        role="A1",
        level=experiment.threads[0] if experiment.levels == "fresh" else None,
        workload=workload,
    )
    steps = [s for s in plan_steps(experiment, slot) if s.kind in ("sql", "warmup", "settle")]
    scans = [step for step in steps if _is_scan(step)]
    for step in steps:
        if _is_scan(step):
            if step is scans[0]:
                yield SCAN
        elif step.kind == "sql":
            yield step.sql or ""
        elif step.kind == "settle":
            yield f"settling for {format_duration(step.seconds)}"
        else:
            yield f"{step.workload} for {format_duration(step.seconds)}"


def _is_scan(step: Step) -> bool:
    return step.kind == "sql" and _SCAN_STATEMENT.fullmatch(step.sql or "") is not None


def is_same_warmup(stated: str, actual: str) -> bool:
    """Whether a warm-up is the stated one; any length will do where the post states none. Remarks
    in brackets do not count.
    """
    stated_name, stated_seconds = _split_length(stated)
    name, seconds = _split_length(actual)
    return stated_name == name and stated_seconds in (None, seconds)


def _split_length(text: str) -> tuple[str, float | None]:
    text = drop_remarks(text)
    name, _, length = text.rpartition(" for ")
    try:
        return name, parse_duration(length)
    except ValueError:
        return text, None

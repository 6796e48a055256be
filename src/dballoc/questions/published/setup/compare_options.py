"""Compare the options of servers and of sysbench's scripts with those that a post states, and a
server's warm-up in the words of a post: ``a scan of every table``, ``oltp_read_only by 8 clients
for 10m``, ``settling for 2m``. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from dballoc.experiment.durations_and_sizes import format_duration, parse_duration
from dballoc.experiment.model import Experiment
from dballoc.experiment.post import Post
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import Step, plan_steps
from dballoc.ground.numbers import count
from dballoc.questions.published.setup import workload_statements
from dballoc.questions.published.setup.run_setup import (
    DEFAULT,
    NOT_SET,
    NOT_STATED,
    PostComparison,
    RunSetup,
    compare_text,
    join_words,
)
from dballoc.questions.published.setup.setting_values import (
    drop_remarks,
    normalize_name,
    normalize_value,
    spread_settings,
    write_value,
)

# Windows' other transport is an option too; it is compared as a transport.
_NAMED_PIPE = "named_pipe"

# The value of an option that is searched for.
_SEARCHED = "what the search tries"


def compare_options(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the options that all variants have in common; those of one are its own. What equals
    the server's default is as if it were not set.
    """
    server = run.experiment.server
    chosen = spread_settings({**server.init_options, **server.options})
    searched = spread_settings(dict.fromkeys(run.searched, _SEARCHED))
    actual = {**spread_settings(run.added_options), **chosen, **searched}
    stated = spread_settings(post.options or {})
    if post.states.get("transport") == "named pipe":
        stated.pop(_NAMED_PIPE, None)
    defaults = spread_settings(run.defaults)
    for name in [*stated, *(name for name in actual if name not in stated)]:
        first, second = stated.get(name), actual.get(name)
        default = defaults.get(name)
        if first is None and second is not None and _is_same_value(second, default):
            continue
        if second is None and default is not None:
            second = f"{default} (the server's default)"
            same = _is_same_value(first, default)
        else:
            same = _is_same_value(first, second)
        unknown = first is None and (post.options is None or not post.options_complete)
        yield PostComparison(
            topic="options",
            item=name,
            post=(NOT_STATED if unknown else DEFAULT) if first is None else first,
            run=NOT_SET if second is None else second,
            differs=not same and not unknown,
        )


def _is_same_value(first: str | None, second: str | None) -> bool:
    return first is not None and second is not None and _mean_the_same(first, second)


def _mean_the_same(first: str, second: str) -> bool:
    return normalize_value(first) == normalize_value(second)


def compare_load_options(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the options of sysbench's script, whose names had the prefix ``oltp-`` once. What
    the post leaves out has the script's default, and so has what the run leaves out.
    """
    chosen = {_name_load_option(k): v for k, v in run.experiment.load.options.items()}
    if post.load_options is None:
        for name, value in chosen.items():
            yield compare_text("load", name, None, value)
        return
    stated = {_name_load_option(k): write_value(v) for k, v in post.load_options.items()}
    for name, value in stated.items():
        actual = _find_load_option(run, name)
        yield PostComparison(
            topic="load",
            item=name,
            post=value,
            run=NOT_SET if actual is None else actual,
            differs=not _is_same_value(value, actual),
        )
    for name, value in chosen.items():
        if name not in stated and not _mean_the_same(_find_default(name), value):
            yield PostComparison(
                topic="load", item=name, post=_DEFAULT_OF_SCRIPT, run=value, differs=True
            )


_DEFAULT_OF_SCRIPT = "not set, so the script's default"


def _find_default(name: str) -> str:
    return workload_statements.DEFAULTS.get(name, NOT_SET)


def _name_load_option(name: str) -> str:
    return normalize_name(name).removeprefix("oltp_")


def _find_load_option(run: RunSetup, name: str) -> str | None:
    """Return what an option of the script is in the run: the experiment's value, else that of the
    workloads which have one, else the script's default.
    """
    experiment = _rename(run.experiment.load.options)
    if name in experiment:
        return experiment[name]
    of_workloads = {
        options[name]
        for workload in run.workloads.values()
        if name in (options := _rename(workload.options))
    }
    return (
        " or ".join(sorted(of_workloads))
        if of_workloads
        else workload_statements.DEFAULTS.get(name)
    )


def _rename(options: Mapping[str, str]) -> dict[str, str]:
    return {_name_load_option(k): v for k, v in options.items()}


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
            clients = count(step.threads or 0, "client")
            yield f"{step.workload} by {clients} for {format_duration(step.seconds)}"


def _is_scan(step: Step) -> bool:
    return step.kind == "sql" and _SCAN_STATEMENT.fullmatch(step.sql or "") is not None


def compare_warmups(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Compare the warm-ups step by step; where there are more on one side, as a whole."""
    actual, stated = describe_warmups(run.experiment), post.warmup
    if stated is None or len(stated) != len(actual):
        text = None if stated is None else _join_steps(map(_write_clients, stated))
        yield compare_text("warm-up", "", text, _join_steps(actual))
        return
    steps = list(zip(stated, actual, strict=True))
    chosen = [
        planned
        for wanted, planned in steps
        if _leaves_clients_open(wanted) and is_same_warmup(wanted, planned)
    ]
    if chosen:
        yield compare_text("warm-up", "clients", None, _join_steps(chosen))
    if all(is_same_warmup(*step) for step in steps):
        text = _join_steps(map(_write_clients, stated))
        yield compare_text("warm-up", "", text, _join_steps(actual), lambda *_: True)
        return
    for number, (first, second) in enumerate(steps, 1):
        if not is_same_warmup(first, second):
            item = f"step {number} of {len(steps)}" if len(steps) > 1 else ""
            yield compare_text("warm-up", item, _write_clients(first), second)


def compare_settling(post: Post, run: RunSetup) -> Iterator[PostComparison]:
    """Tell which variables of a stated settling a server did not have, and what was set instead;
    before it ran, which it may not have. What is not known yet does not differ.
    """
    if not any(drop_remarks(text).startswith(_SETTLING) for text in post.warmup or []):
        return
    variants: dict[tuple[str, str], list[str]] = {}
    for variant, otherwise in run.settled_otherwise.items():
        for change in otherwise.items():
            variants.setdefault(change, []).append(variant)
    for (name, substitute), names in variants.items():
        everywhere = len(names) == len(run.servers)
        item = "settling sets" if everywhere else f"settling sets, {join_words(names)}"
        lacking = "the server does not have it"
        actual = f"{substitute}, as {lacking}" if substitute else f"not set, as {lacking}"
        yield compare_text("warm-up", item, name, actual)
    for name, (lacking, substitute) in run.may_settle_otherwise.items():
        instead = f"{substitute} instead" if substitute else "nothing instead"
        actual = (
            f"{name}; on a server without it ({lacking}), {instead}: which of both, only a run "
            "tells"
        )
        yield compare_text("warm-up", "settling sets", name, actual, lambda *_: True)


def _join_steps(warmups: Iterable[str]) -> str:
    return ", then ".join(warmups) or "none"


def _write_clients(stated: str) -> str:
    """Return a stated warm-up; of a load by a number of clients that is not stated, with that."""
    return f"{stated} (clients not stated)" if _leaves_clients_open(stated) else stated


def _leaves_clients_open(stated: str) -> bool:
    """Whether a stated warm-up is a load by a number of clients that is not stated."""
    is_load = _split_warmup(stated)[2] is not None and not stated.startswith(_SETTLING)
    return is_load and not _CLIENTS.search(stated)


def is_same_warmup(stated: str, actual: str) -> bool:
    """Whether a warm-up is the stated one; any length and number of clients will do where the post
    states none. Remarks in brackets do not count.
    """
    stated_name, *stated_numbers = _split_warmup(stated)
    name, *numbers = _split_warmup(actual)
    return stated_name == name and all(
        first in (None, second) for first, second in zip(stated_numbers, numbers, strict=True)
    )


_SETTLING = "settling"
_CLIENTS = re.compile(r" by ([0-9]{1,9}) clients?(?= for |$)")


def _split_warmup(text: str) -> tuple[str, int | None, float | None]:
    """Return what is run, by how many clients and for how many seconds."""
    text = drop_remarks(text)
    clients = _CLIENTS.search(text)
    if clients:
        text = text[: clients.start()] + text[clients.end() :]
    number = int(clients[1]) if clients else None
    name, _, length = text.rpartition(" for ")
    try:
        return name, number, parse_duration(length)
    except ValueError:
        return text, number, None

"""Compare the options of servers and of sysbench's scripts with those that a post states. Pure."""

from collections.abc import Iterator, Mapping

from dballoc.analysis.published.setup import workload_statements
from dballoc.analysis.published.setup.run_setup import (
    DEFAULT,
    NOT_SET,
    NOT_STATED,
    PostComparison,
    RunSetup,
    compare_text,
)
from dballoc.analysis.published.setup.setting_values import (
    normalize_name,
    normalize_value,
    spread_settings,
    write_value,
)
from dballoc.experiment.post import Post

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

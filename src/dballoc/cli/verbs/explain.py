"""``dballoc explain``: where a live server's memory goes, now, over time, and between two looks."""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dballoc.cli.explain_parts import ledger_table, loadable_function, watch_display
from dballoc.cli.shared.safe_output import Console, clean, say
from dballoc.errors import Failure, UsageError
from dballoc.experiment.durations_and_sizes import parse_duration
from dballoc.explain import explanation, find_server
from dballoc.explain.difference import difference
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import openmetrics, saved_looks
from dballoc.explain.watch import Pace
from dballoc.process_memory.heaps.heap_probe_estimate import Sampled, has_probe
from dballoc.process_memory.process_snapshot import Outside
from dballoc.servers.running import credentials

if TYPE_CHECKING:
    from dballoc.profile.heap.live_heap import Uncounted


def explain(
    pid: Annotated[
        int | None, typer.Option(metavar="PID", help="The server's process.", min=1)
    ] = None,
    socket: Annotated[
        str | None, typer.Option(metavar="PATH", help="The server that listens there.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="UNIT", help="The main process of a systemd unit.")
    ] = None,
    login_path: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Login path that the server is asked with, beside ~/.my.cnf."
        ),
    ] = None,
    without_sql: Annotated[
        bool, typer.Option("--no-sql", help="Do not ask the server itself.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--procedure",
            help="Also what one looks up by hand: variables, counters, InnoDB's and "
            "performance_schema's own "
            "figures, sessions, process and host.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the ledger and what it means as JSON, bytes.")
    ] = False,
    as_metrics: Annotated[
        bool, typer.Option("--openmetrics", help="Print OpenMetrics text, for a scraper.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained page.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save this look, for --diff and --from; gzip if it ends in .gz."
        ),
    ] = None,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Of a saved look or series, instead of a live server."
        ),
    ] = None,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="A B",
            help="What grew from one saved look to another; of a series, its first or its last "
            "one.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again; q or Ctrl-C ends it.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="With --watch: between looks, but see --cpu.")
    ] = "5s",
    span: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="With --watch: end it after that, like 10m."),
    ] = None,
    cpu: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            help="With --watch: of one CPU, what looks may cost at most.",
            min=0.01,
            max=100,
        ),
    ] = 1.0,
    save_series: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --watch: save every look, a line of JSON each."),
    ] = None,
    install: Annotated[
        bool,
        typer.Option(
            "--install-function",
            help="Load a function into the server by which its malloc tells its books.",
        ),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove-function", help="Take that function out of the server again.")
    ] = False,
    trim: Annotated[
        bool, typer.Option("--trim", help="Have the server's malloc give back what it holds free.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before one of these three.")
    ] = False,
) -> None:
    """Say where a live server's memory goes: what it means, what to do, and lines that add up to
    its RSS.

    Without --pid, --socket or --service: the only server that runs here. Nothing is stopped,
    restarted, enabled or written, but by --install-function, --remove-function and --trim, which
    say what they do and ask first.
    """
    changes = {
        loadable_function.install: install,
        loadable_function.remove: remove,
        loadable_function.trim: trim,
    }
    asked = [change for change, wanted in changes.items() if wanted]
    forms = (
        without_sql,
        whole,
        as_json,
        as_metrics,
        html,
        save,
        saved,
        diff,
        watch,
        span,
        save_series,
    )
    if len(asked) > 1 or (asked and any(forms)):
        raise UsageError(
            "--install-function, --remove-function and --trim are each given alone, but for the "
            "server and --yes"
        )
    if asked:
        asked[0](find_server.find(pid, socket, service), credentials.find(login_path), yes)
        return
    live = pid is not None or socket is not None or service is not None
    _refuse_nonsense(live, as_json, as_metrics, saved, diff, watch, span, save_series)
    if diff and (html or save):
        raise UsageError("--diff writes no page and no snapshot; --json has it for machines")
    if diff:
        found = difference(saved_looks.load(diff[0])[0], saved_looks.load(diff[1])[-1])
        if as_json:
            print(json.dumps(found.as_json(), indent=1))
        else:
            ledger_table.print_difference(Console(), clean(found))
        return
    if saved:
        series = saved_looks.load(saved)
    else:
        process = find_server.find(pid, socket, service)
        who = None if without_sql else credentials.find(login_path)
        if watch:
            pace = Pace(_time(every, "--every"), _time(span, "--for") if span else None, cpu / 100)
            series = watch_display.run(process, who, pace, save_series, Console(), _sample)
        else:
            series = [explanation.explain(process, who, whole, _sample)]
    if series:
        _give(series, as_json, as_metrics, html, save, quiet=watch)


def _sample(look: Outside) -> Sampled | None:
    """Ask the heap probe of a process that has one."""
    return _uncounted(look.pid).look() if has_probe(look) else None


@cache
def _uncounted(pid: int) -> "Uncounted":
    from dballoc.profile.heap.live_heap import (
        Uncounted,
    )  # here: what finds the names of functions takes a while to load

    return Uncounted(pid)


def _give(
    series: list[Explanation],
    as_json: bool,
    as_metrics: bool,
    html: Path | None,
    save: Path | None,
    quiet: bool,
) -> None:
    """Every form of it that was asked for; the table unless another one goes to standard output, or
    ``quiet``.
    """
    last = explanation.judged(series) if len(series) > 1 else series[-1]
    if save:
        saved_looks.save(last, save)
    if html:
        from dballoc.explain.output import page  # here: charts take a second to load

        try:
            html.write_text(page.render(series), encoding="utf-8")
        except OSError as error:
            raise Failure(f"--html {html}: {error.strerror or error}") from None
    if as_json:
        print(json.dumps(saved_looks.document(last), indent=1))
    elif as_metrics:
        say(openmetrics.text(last).removesuffix("\n"))
    elif not quiet:
        ledger_table.print_all(Console(), clean(last))


def _refuse_nonsense(
    live: bool,
    as_json: bool,
    as_metrics: bool,
    saved: Path | None,
    diff: tuple[Path, Path] | None,
    watch: bool,
    span: str | None,
    save_series: Path | None,
) -> None:
    """UsageError for flags that do not go together."""
    kinds = {"--diff": diff is not None, "--from": saved is not None, "--watch": watch}
    chosen = [flag for flag, given in kinds.items() if given]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if live and (diff or saved):
        raise UsageError(f"{chosen[0]} is of saved looks: no --pid, --socket or --service with it")
    if as_json and as_metrics:
        raise UsageError("give one of --json and --openmetrics")
    if as_metrics and diff:
        raise UsageError("--openmetrics is of one look, not of --diff")
    if watch and (as_json or as_metrics):
        raise UsageError(
            "--watch prints no --json or --openmetrics; --save-series FILE has every look as JSON"
        )
    for flag, given in (("--for", span), ("--save-series", save_series)):
        if given and not watch:
            raise UsageError(f"{flag} goes with --watch")


def _time(text: str, flag: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None

"""Carry out a command line of ``dballoc explain``."""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dballoc.cli.explain_parts import ledger_table
from dballoc.cli.explain_parts.explain_request import (
    Request,
    choose_change,
    refuse_conflicts,
)
from dballoc.cli.extras import require_extra
from dballoc.cli.shared.safe_output import Console, clean, print_json, say
from dballoc.explain import explanation, find_server
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import saved_snapshots
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_file import write_file
from dballoc.host.abandonable.abandonable_work import (
    AbandonableWork,
    read_cpu_seconds,
    run_abandonable,
)
from dballoc.host.abandonable.child import tell_parent
from dballoc.host.abandonable.look_limits import look_limits
from dballoc.host.process.handle import Process
from dballoc.process.heaps.heap_probe_estimate import ProbeEstimate, has_probe
from dballoc.process.snapshot import ProcessSnapshot

if TYPE_CHECKING:
    from dballoc.profile.heap.live_heap import ProbedHeapReader

# Modules that few command lines need are imported where they are used, for a quicker start.


def run_explain(request: Request) -> None:
    """Change the server, or show snapshots. Raises UsageError for flags that exclude each other."""
    if change := choose_change(request):
        from dballoc.cli.explain_parts import confirmed_server_changes as changes

        functions = {
            "install": changes.install_function,
            "remove": changes.remove_function,
            "trim": changes.trim_heap,
        }
        target = request.target
        functions[change](find_server.find_server(target.server), target.find_login(), request.yes)
        return
    refuse_conflicts(request)
    if request.outputs.html:
        require_extra("report", "dballoc explain --html")
    if request.listening.listen is not None:
        from dballoc.cli.explain_parts import serve_metrics

        serve_metrics.serve_metrics(request, request.listening.listen, _sample_heap)
    elif request.diff:
        _print_difference(request.diff, request.outputs.as_json)
    elif request.saved:
        _output(_load_series(request.saved), request)
    else:
        before = read_cpu_seconds()
        if series := _read_server(request):
            _output(series, request, read_cpu_seconds() - before + series[-1].within)


def _load_series(path: Path) -> list[Explanation]:
    from dballoc.explain.output.load_snapshots import load_series

    return load_series(path)


def _print_difference(paths: tuple[Path, Path], as_json: bool) -> None:
    """Print what grew from the first snapshot of one file to the last of another."""
    from dballoc.explain.difference import compare_explanations

    before, after = paths
    difference = compare_explanations(_load_series(before)[0], _load_series(after)[-1])
    if as_json:
        print_json(difference.as_json())
    else:
        ledger_table.print_difference(Console(), clean(difference))


def _read_server(request: Request) -> Sequence[Explanation]:
    """Return the snapshots of a live server: one, or a series with --watch; empty if the user ended
    it before the first.
    """
    target, watching = request.target, request.watching
    login = None if target.without_sql else target.find_login()
    if not watching.watch:
        # One child both finds and reads the server: each costs about 10 ms.
        return [
            run_abandonable(
                lambda: explanation.explain(
                    find_server.find_server(target.server),
                    login,
                    request.procedure,
                    _sample_heap,
                    tell_parent,
                ),
                f"process {target.server.pid}" if target.server.pid else "the server",
                announce=_announce,
            )
        ]
    process = find_server.find_server(target.server)
    from dballoc.cli.explain_parts import watch_display

    reader = AbandonableWork[Process, Explanation](
        lambda process: explanation.explain(process, login, sample=_sample_heap),
        look_limits(),
        str(process),
    )
    try:
        # Before the display has threads.
        reader.start()
        return watch_display.run_watch(
            process, reader.run, watching.parse_pace(), watching.save_series, Console()
        )
    finally:
        reader.close()


def _announce(words: str) -> None:
    print(f"dballoc: {clean(words)}", file=sys.stderr, flush=True)


def _sample_heap(snapshot: ProcessSnapshot) -> ProbeEstimate | None:
    """Ask the heap probe of a process that has one."""
    return _open_probe(snapshot.process).look() if has_probe(snapshot) else None


@cache
def _open_probe(process: Process) -> "ProbedHeapReader":
    from dballoc.profile.heap.live_heap import ProbedHeapReader

    return ProbedHeapReader(process)


def _output(series: Sequence[Explanation], request: Request, cost: float | None = None) -> None:
    """Print and write every form that is wanted; the table unless another form goes to standard
    output, or the snapshots were watched. ``cost``: seconds of CPU that a look has just taken.
    """
    outputs = request.outputs
    last = explanation.judge_series(series) if len(series) > 1 else series[-1]
    if outputs.save:
        saved_snapshots.save_snapshot(last, outputs.save)
    if outputs.html:
        _write_page(series, outputs.html)
    if outputs.as_json:
        print_json(saved_snapshots.make_document(last))
    elif outputs.as_metrics:
        from dballoc.explain.output import openmetrics

        say(openmetrics.render_openmetrics(last).removesuffix("\n"))
    elif not request.watching.watch:
        ledger_table.print_explanation(Console(), clean(last), request.view, cost)


def _write_page(series: Sequence[Explanation], path: Path) -> None:
    from dballoc.explain.output import page

    try:
        write_file(path, page.render_explanation(series))
    except OSError as error:
        raise Failure(f"--html {path}: {error.strerror or error}") from None

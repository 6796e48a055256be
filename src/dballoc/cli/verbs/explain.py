"""``dballoc explain``: where a live server's memory goes, now, over time, and between two
snapshots.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dballoc.cli.explain_parts import explain_flags as flags
from dballoc.cli.explain_parts import ledger_table, watch_display
from dballoc.cli.explain_parts.confirmed_server_changes import (
    install_function,
    remove_function,
    trim_heap,
)
from dballoc.cli.explain_parts.explain_request import (
    Change,
    ListenFlags,
    Outputs,
    Request,
    Target,
    Watching,
    choose_change,
    refuse_conflicts,
)
from dballoc.cli.shared.safe_output import Console, clean, say
from dballoc.cli.shared.server_flags import LoginPath, Pid, Service, Socket
from dballoc.errors import Failure
from dballoc.explain import explanation, find_server
from dballoc.explain.difference import compare_explanations
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import openmetrics, saved_snapshots
from dballoc.process_memory.heaps.heap_probe_estimate import ProbeEstimate, has_probe
from dballoc.process_memory.process_snapshot import ProcessSnapshot
from dballoc.servers.running import credentials

if TYPE_CHECKING:
    from dballoc.profile.heap.live_heap import ProbedHeapReader


_CHANGES: tuple[Change, ...] = (install_function, remove_function, trim_heap)


def explain(
    pid: Pid = None,
    socket: Socket = None,
    service: Service = None,
    login_path: LoginPath = None,
    without_sql: flags.NoSql = False,
    with_checklist: flags.Procedure = False,
    event: flags.Event = None,
    account: flags.Account = None,
    as_json: flags.Json = False,
    as_metrics: flags.Openmetrics = False,
    html: flags.Html = None,
    save: flags.Save = None,
    saved: flags.From = None,
    diff: flags.Diff = None,
    watch: flags.Watch = False,
    every: flags.Every = "5s",
    span: flags.For = None,
    cpu: flags.Cpu = 1.0,
    save_series: flags.SaveSeries = None,
    listen: flags.Listen = None,
    tls_cert: flags.TlsCert = None,
    tls_key: flags.TlsKey = None,
    token_file: flags.TokenFile = None,
    run_as: flags.RunAs = None,
    install: flags.InstallFunction = False,
    remove: flags.RemoveFunction = False,
    trim: flags.Trim = False,
    yes: flags.Yes = False,
) -> None:
    """Say where a live server's memory goes: what it means, what to do, and lines that add up to
    its RSS.

    Without --pid, --socket or --service: the only server that runs here. Nothing is stopped,
    restarted, enabled or written, except by --install-function, --remove-function and --trim, which
    say what they do and ask first.
    """
    target = Target(
        pid=pid, socket=socket, service=service, login_path=login_path, without_sql=without_sql
    )
    request = Request(
        target=target,
        outputs=Outputs(as_json=as_json, as_metrics=as_metrics, html=html, save=save),
        watching=Watching(watch=watch, every=every, span=span, cpu=cpu, save_series=save_series),
        listening=ListenFlags(
            listen=listen, tls_cert=tls_cert, tls_key=tls_key, token_file=token_file, run_as=run_as
        ),
        with_checklist=with_checklist,
        event=event,
        account=account,
        saved=saved,
        diff=diff,
    )
    changes = (install, remove, trim)
    if change := choose_change(request, dict(zip(_CHANGES, changes, strict=True))):
        change(_find_pid(target), credentials.find(login_path), yes)
        return
    refuse_conflicts(request)
    _answer(request)


def _answer(request: Request) -> None:
    """Do what is asked for, but changes to the server."""
    if request.listening.listen is not None:
        from dballoc.cli.explain_parts import serve_metrics  # here: few need a server

        serve_metrics.serve_metrics(request, request.listening.listen, _sample_heap)
        return
    if request.diff:
        _print_difference(request.diff, request.outputs.as_json)
        return
    saved = request.saved
    if series := saved_snapshots.load_series(saved) if saved else _read_server(request):
        _output(series, request.outputs, quiet=request.watching.watch)


def _find_pid(target: Target) -> int:
    return find_server.find_server_pid(target.pid, target.socket, target.service)


def _print_difference(paths: tuple[Path, Path], as_json: bool) -> None:
    """Print what grew from the first snapshot of one file to the last of another."""
    before, after = paths
    difference = compare_explanations(
        saved_snapshots.load_series(before)[0], saved_snapshots.load_series(after)[-1]
    )
    if as_json:
        print(json.dumps(difference.as_json(), indent=1))
    else:
        ledger_table.print_difference(Console(), clean(difference))


def _read_server(request: Request) -> Sequence[Explanation]:
    """Return the snapshots of a live server: one, or a series with --watch; empty if that was ended
    before the first.
    """
    target, watching = request.target, request.watching
    pid = _find_pid(target)
    login = None if target.without_sql else credentials.find(target.login_path)
    if not watching.watch:
        return [explanation.explain(pid, login, request.procedure, _sample_heap)]
    return watch_display.run_watch(
        pid, login, watching.parse_pace(), watching.save_series, Console(), _sample_heap
    )


def _sample_heap(snapshot: ProcessSnapshot) -> ProbeEstimate | None:
    """Ask the heap probe of a process that has one."""
    return _open_probe(snapshot.pid).look() if has_probe(snapshot) else None


@cache
def _open_probe(pid: int) -> "ProbedHeapReader":
    from dballoc.profile.heap.live_heap import (
        ProbedHeapReader,  # here: what finds the names of functions takes a while to load
    )

    return ProbedHeapReader(pid)


def _output(series: Sequence[Explanation], outputs: Outputs, quiet: bool) -> None:
    """Print and write every form that is wanted; the table unless another form goes to standard
    output, or ``quiet``.
    """
    last = explanation.judge_series(series) if len(series) > 1 else series[-1]
    if outputs.save:
        saved_snapshots.save_snapshot(last, outputs.save)
    if outputs.html:
        _write_page(series, outputs.html)
    if outputs.as_json:
        print(json.dumps(saved_snapshots.make_document(last), indent=1))
    elif outputs.as_metrics:
        say(openmetrics.render_openmetrics(last).removesuffix("\n"))
    elif not quiet:
        ledger_table.print_explanation(Console(), clean(last))


def _write_page(series: Sequence[Explanation], path: Path) -> None:
    from dballoc.explain.output import page  # here: charts take a second to load

    try:
        path.write_text(page.render_page(series), encoding="utf-8")
    except OSError as error:
        raise Failure(f"--html {path}: {error.strerror or error}") from None

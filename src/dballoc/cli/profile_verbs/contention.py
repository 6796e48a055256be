"""``dballoc profile contention``: what a live server's threads wait for, and which share of it lies
below malloc.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.cli.shared.server_flags import Pid, Service, Socket
from dballoc.profile.contention.recording_limits import MAX_STACKS


def contention(
    pid: Pid = None,
    socket: Socket = None,
    service: Service = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to watch.", min=0.5, max=3600)
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep profiles and flame graphs there.")
    ] = None,
    method: Annotated[
        Literal["auto", "perf", "proc"],
        typer.Option(
            help="perf: with call stacks. proc: from /proc alone, without stacks. auto: perf, or "
            "proc where perf is not permitted."
        ),
    ] = "auto",
    stacks: Annotated[
        int,
        typer.Option(
            metavar="N", help="About how many call stacks to record; 32 KiB each.", min=100
        ),
    ] = MAX_STACKS,
    as_json: flags.AsJson = False,
) -> None:
    """Show what a live server's threads wait for: locks and kernel memory calls below malloc, and
    everything else.

    Without --pid, --socket or --service: the only server that runs here. Nothing is stopped,
    restarted or injected.
    """
    # Here: --help needs none of it.
    from dballoc.cli.profile_parts import contention_report
    from dballoc.explain import find_server
    from dballoc.host.guardian.guardian_client import Custody
    from dballoc.profile.contention import contention as watch

    process = find_server.find_server(find_server.ServerFlags(pid, socket, service))
    with Custody(adopt=True) as custody:
        request = watch.WatchRequest(
            process=process,
            seconds=seconds,
            custody=custody,
            stacks=stacks,
            title=watch.name_process(process),
        )
        result = watch.watch_waits(request, method)
    report = contention_report.make_report(process, result)
    if out is not None:
        report.files = contention_report.save_profiles(result, out)
    if as_json:
        print_json(contention_report.make_document(report))
    else:
        contention_report.print_report(Console(), report)

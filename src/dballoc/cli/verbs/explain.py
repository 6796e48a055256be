"""``dballoc explain``: where a live server's memory goes, now, over time, and between two
snapshots.
"""

from dballoc.cli.explain_parts import explain_flags as flags
from dballoc.cli.shared.server_flags import LoginPath, Pid, Service, Socket


def explain(
    pid: Pid = None,
    socket: Socket = None,
    service: Service = None,
    login_path: LoginPath = None,
    without_sql: flags.NoSql = False,
    with_checklist: flags.Procedure = False,
    event: flags.Event = None,
    account: flags.Account = None,
    all_lines: flags.All = False,
    sources: flags.Sources = False,
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

    Without --pid, --socket or --service: the only server that runs here. Nothing is changed, except
    by --install-function, --remove-function and --trim, which say what they do and ask first.
    """
    from dballoc.cli.explain_parts import explain_request as asked  # here: --help needs none
    from dballoc.cli.explain_parts.run_explain import run_explain
    from dballoc.explain.find_server import ServerFlags

    server = ServerFlags(pid, socket, service)
    request = asked.Request(
        target=asked.Target(server=server, login_path=login_path, without_sql=without_sql),
        view=asked.View(all_lines=all_lines, sources=sources),
        outputs=asked.Outputs(as_json=as_json, as_metrics=as_metrics, html=html, save=save),
        watching=asked.Watching(
            watch=watch, every=every, span=span, cpu=cpu, save_series=save_series
        ),
        listening=asked.ListenFlags(
            listen=listen, tls_cert=tls_cert, tls_key=tls_key, token_file=token_file, run_as=run_as
        ),
        with_checklist=with_checklist,
        event=event,
        account=account,
        saved=saved,
        diff=diff,
    )
    run_explain(request, install=install, remove=remove, trim=trim, yes=yes)

"""The flags of ``dballoc explain``, and which exclude each other. No I/O."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from dballoc.cli.shared.server_flags import LoginPath, Pid, Service, Socket
from dballoc.cli.shared.size_and_duration_flags import duration
from dballoc.ground.errors import UsageError

# --help needs none of these.
if TYPE_CHECKING:
    from dballoc.explain.checklist.memory_events import EventFilter
    from dballoc.explain.find_server import ServerFlags
    from dballoc.explain.watch import WatchPace
    from dballoc.servers.running.credentials import Credentials

# The changes to the server, by the field of their flag.
Change = Literal["install", "remove", "trim"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which server, and how to log in to it."""

    pid: Pid = None
    socket: Socket = None
    service: Service = None
    login_path: LoginPath = None
    without_sql: Annotated[bool, typer.Option("--no-sql", help="Do not connect to the server.")] = (
        False
    )

    @property
    def server(self) -> "ServerFlags":
        """The flags that name the server."""
        from dballoc.explain.find_server import ServerFlags

        return ServerFlags(self.pid, self.socket, self.service)

    def find_login(self) -> "Credentials":
        """Find the credentials to log in with. Raises UsageError if an option file is wrong."""
        from dballoc.servers.running import credentials

        return credentials.find(self.login_path, socket=self.socket)


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """How much of the ledger is shown. ``all_lines``: the small ones too; ``sources``: of each line
    its size, and where its figure is from.
    """

    all_lines: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show the lines under 1 % of RSS too, the users of each, what is behind each "
            "notice, and all of what the configuration allows.",
        ),
    ] = False
    sources: Annotated[
        bool, typer.Option("--sources", help="Add each line's size, and where its figure is from.")
    ] = False

    @property
    def flag(self) -> str:
        """The first flag that was given, empty for none."""
        return "--all" if self.all_lines else "--sources" if self.sources else ""


@dataclass(frozen=True, kw_only=True)
class ExplainOutputs:
    """The forms that are printed, and the files that are written."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print the ledger and what it means as JSON, bytes.")
    ] = False
    as_metrics: Annotated[
        bool, typer.Option("--openmetrics", help="Print OpenMetrics text, for a scraper.")
    ] = False
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained page.")
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save this snapshot, for --diff and --from; gzip if it ends in .gz.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Watching:
    """``--watch`` and the flags that need it; times as they were written, ``cpu`` in percent."""

    watch: Annotated[
        bool, typer.Option("--watch", help="Take snapshots again and again; q or Ctrl-C ends it.")
    ] = False
    every: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="With --watch or --listen: time between snapshots, but see --cpu."
        ),
    ] = "5s"
    span: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="With --watch: end it after that, like 10m."),
    ] = None
    cpu: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            help="With --watch or --listen: the most of one CPU that snapshots may use.",
            min=0.01,
            max=100,
        ),
    ] = 1.0
    save_series: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --watch: save every snapshot, a line of JSON each."
        ),
    ] = None

    def parse_pace(self) -> "WatchPace":
        """Return the pace of the snapshots. Raises UsageError if a time is not a duration."""
        from dballoc.explain.watch import WatchPace

        span = duration(self.span, "--for") if self.span else None
        return WatchPace(duration(self.every, "--every"), span, self.cpu / 100)


@dataclass(frozen=True, kw_only=True)
class ListenFlags:
    """``--listen`` and the flags that need it, as they were written."""

    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Serve OpenMetrics for Prometheus at ADDRESS: 127.0.0.1:9109, or unix:/PATH. "
            "Another address than loopback needs the next three.",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --listen: certificate, for HTTPS.")
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --listen: its private key.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --listen: a file with the token that a scraper must send."
        ),
    ] = None
    run_as: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="With --listen, as root: become USER, and keep only the rights to read processes. "
            "[default: nobody]",
            show_default=False,
        ),
    ] = None

    @property
    def secondary(self) -> dict[str, Path | str | None]:
        """The flags that need ``--listen``."""
        return {
            "--tls-cert": self.tls_cert,
            "--tls-key": self.tls_key,
            "--token-file": self.token_file,
            "--run-as": self.run_as,
        }


@dataclass(frozen=True, kw_only=True)
class Request:
    """All of the command line. ``event`` and ``account`` narrow the checklist; ``saved`` and
    ``diff``: files of snapshots; ``install``, ``remove`` and ``trim`` change the server.
    """

    target: Target = Target()
    with_checklist: Annotated[
        bool,
        typer.Option(
            "--procedure",
            help="Add what one would look up by hand: variables, counters, InnoDB's and "
            "performance_schema's own figures, sessions, process and host.",
        ),
    ] = False
    event: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --procedure: of what accounts have allocated and freed, this memory "
            "instrument alone, like memory/sql/JOIN_CACHE; % stands for any characters.",
        ),
    ] = None
    account: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="With --procedure: the same of this account alone, USER or USER@HOST.",
        ),
    ] = None
    view: LedgerView = LedgerView()
    outputs: ExplainOutputs = ExplainOutputs()
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Show a saved snapshot or series, instead of a live server.",
        ),
    ] = None
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="A B",
            help="Print what grew between two saved snapshots; of a series, A is its first "
            "snapshot and B its last.",
        ),
    ] = None
    watching: Watching = Watching()
    listening: ListenFlags = ListenFlags()
    install: Annotated[
        bool,
        typer.Option(
            "--install-function",
            help="Load a function into the server that returns its malloc's statistics.",
        ),
    ] = False
    remove: Annotated[
        bool, typer.Option("--remove-function", help="Remove that function from the server.")
    ] = False
    trim: Annotated[
        bool,
        typer.Option("--trim", help="Make the server's malloc return free memory to the kernel."),
    ] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before one of these three.")] = (
        False
    )

    @property
    def procedure(self) -> "EventFilter | None":
        """Which rows of the checklist's accounts to read; None for no checklist."""
        if not self.with_checklist:
            return None
        from dballoc.explain.checklist.memory_events import EventFilter

        return EventFilter(self.event, self.account)


def choose_change(request: Request) -> Change | None:
    """Return the one change to the server that is wanted, None without. Raises UsageError if it is
    not alone.
    """
    wanted = [change for change in get_args(Change) if getattr(request, change)]
    outputs, watching = request.outputs, request.watching
    other_flags = (
        *(request.target.without_sql, request.with_checklist, request.saved, request.diff),
        *(request.event, request.account, request.view.flag),
        *(outputs.as_json, outputs.as_metrics, outputs.html, outputs.save),
        *(watching.watch, watching.span, watching.save_series),
        *(request.listening.listen, *request.listening.secondary.values()),
    )
    if len(wanted) > 1 or (wanted and any(other_flags)):
        raise UsageError(
            "give only one of --install-function, --remove-function and --trim; it goes with "
            "--yes and with the flags that name the server, and with no others"
        )
    return wanted[0] if wanted else None


def refuse_conflicts(request: Request) -> None:
    """Raise UsageError for flags that exclude each other."""
    outputs, watching = request.outputs, request.watching
    uses = {"--diff": request.diff, "--from": request.saved, "--watch": watching.watch}
    chosen = [flag for flag, value in uses.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if any(flag is not None for flag in request.target.server) and (request.diff or request.saved):
        raise UsageError(
            f"{chosen[0]} reads saved snapshots: leave out --pid, --socket and --service"
        )
    if outputs.as_json and outputs.as_metrics:
        raise UsageError("give one of --json and --openmetrics")
    if outputs.as_metrics and request.diff:
        raise UsageError("--diff cannot be printed as OpenMetrics; use --json")
    if watching.watch and (outputs.as_json or outputs.as_metrics):
        raise UsageError(
            "--watch does not go with --json or --openmetrics; --save-series FILE saves every "
            "snapshot as JSON"
        )
    tableless = {
        "--json": outputs.as_json,
        "--openmetrics": outputs.as_metrics,
        "--watch": watching.watch,
        "--diff": request.diff,
    }
    if request.view.flag and (other := next((f for f, value in tableless.items() if value), "")):
        raise UsageError(
            f"{request.view.flag} is about the table of one snapshot: leave out {other}"
        )
    for flag, value in (("--for", watching.span), ("--save-series", watching.save_series)):
        if value and not watching.watch:
            raise UsageError(f"{flag} only goes with --watch")
    for flag, text in (("--event", request.event), ("--account", request.account)):
        if text is not None and not request.with_checklist:
            raise UsageError(f"{flag} only goes with --procedure")
    if request.with_checklist and chosen:
        raise UsageError(
            f"--procedure does not go with {chosen[0]}: it is looked up once, of a live server"
        )
    if request.diff and (outputs.html or outputs.save):
        raise UsageError("--diff does not go with --html or --save; use --json")
    _refuse_listen_conflicts(request)


def _refuse_listen_conflicts(request: Request) -> None:
    outputs, listening = request.outputs, request.listening
    if listening.listen is None:
        for flag, value in listening.secondary.items():
            if value is not None:
                raise UsageError(f"{flag} only goes with --listen")
        return
    others = {
        "--watch": request.watching.watch,
        "--procedure": request.with_checklist,
        "--from": request.saved,
        "--diff": request.diff,
        "--json": outputs.as_json,
        "--openmetrics": outputs.as_metrics,
        "--html": outputs.html,
        "--save": outputs.save,
    }
    if chosen := [flag for flag, value in others.items() if value]:
        raise UsageError(f"--listen serves one form to a scraper: leave out {chosen[0]}")

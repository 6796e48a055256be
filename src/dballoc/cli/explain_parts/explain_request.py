"""What a command line of ``dballoc explain`` asks for, and which of its flags exclude each other.
No I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.experiment.durations_and_sizes import parse_duration
from dballoc.explain.checklist.memory_events import EventFilter
from dballoc.explain.find_server import ServerFlags
from dballoc.explain.watch import Pace
from dballoc.host.process_handle import Process
from dballoc.servers.running.credentials import Credentials

# Changes the server; the last argument: without asking first.
Change = Callable[[Process, Credentials, bool], None]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which server, and how to log in to it."""

    server: ServerFlags
    login_path: str | None
    without_sql: bool


@dataclass(frozen=True, kw_only=True)
class View:
    """How much of the ledger is shown. ``all_lines``: the small ones too; ``sources``: of each line
    its size, and where its figure is from.
    """

    all_lines: bool = False
    sources: bool = False

    @property
    def flag(self) -> str:
        """The first flag that was given, empty for none."""
        return "--all" if self.all_lines else "--sources" if self.sources else ""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What is printed, and the files that are written."""

    as_json: bool
    as_metrics: bool
    html: Path | None
    save: Path | None


@dataclass(frozen=True, kw_only=True)
class Watching:
    """``--watch`` and the flags that need it; times as they were written, ``cpu`` in percent."""

    watch: bool
    every: str
    span: str | None
    cpu: float
    save_series: Path | None

    def parse_pace(self) -> Pace:
        """Return the pace of the snapshots. UsageError if a time is not a duration."""
        span = _parse_time(self.span, "--for") if self.span else None
        return Pace(_parse_time(self.every, "--every"), span, self.cpu / 100)


@dataclass(frozen=True, kw_only=True)
class ListenFlags:
    """``--listen`` and the flags that need it, as they were written."""

    listen: str | None
    tls_cert: Path | None
    tls_key: Path | None
    token_file: Path | None
    run_as: str | None

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
    """All of the command line but the changes to the server. ``event`` and ``account`` narrow the
    checklist; ``saved`` and ``diff``: files of snapshots.
    """

    target: Target
    view: View
    outputs: Outputs
    watching: Watching
    listening: ListenFlags
    with_checklist: bool
    event: str | None
    account: str | None
    saved: Path | None
    diff: tuple[Path, Path] | None

    @property
    def procedure(self) -> EventFilter | None:
        """What is wanted of the checklist, None for nothing."""
        if not self.with_checklist:
            return None
        return EventFilter(self.event, self.account)


def choose_change(request: Request, changes: dict[Change, bool]) -> Change | None:
    """Return the one change to the server that is wanted, None without. UsageError if it is not
    alone.
    """
    wanted = [change for change, is_wanted in changes.items() if is_wanted]
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
    if request.target.server != ServerFlags() and (request.diff or request.saved):
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


def _parse_time(text: str, flag: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None

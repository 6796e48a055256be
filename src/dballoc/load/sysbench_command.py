"""Drive sysbench: its command, its configuration file, its environment."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dballoc.experiment.model import Data, Load
from dballoc.fetch import closed_store
from dballoc.ground.errors import UsageError
from dballoc.host import portable
from dballoc.host.unprivileged.private_file import write_private
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import ServerUser, server_user
from dballoc.load.workload import Workload, lua, of_catalogue, shown
from dballoc.servers.private.admin_connection import USER
from dballoc.servers.private.command_line import Address

_SHARE = ("/usr/share/sysbench", "/usr/local/share/sysbench")


@dataclass(frozen=True)
class Sysbench:
    """sysbench: its executable, its version, the directory of its scripts, and the experiment's
    workloads.
    """

    executable: Path
    version: str
    share: Path
    workloads: Mapping[str, Workload] = field(default_factory=dict, hash=False)

    def workload(self, name: str) -> Workload:
        """Return the experiment's workload of that name, else the catalogue's. Raises UsageError if
        there is none.
        """
        return self.workloads.get(name) or of_catalogue(name)


@dataclass(frozen=True)
class Beside:
    """A program that a workload's first client runs: its command line for a shell, and the file for
    what it says.
    """

    command: str
    log: Path


@cache
def find() -> Sysbench:
    """Find the machine's sysbench, 1.0 or later; in a kit the kit's. Raises UsageError if there is
    none.
    """
    closed = closed_store.open_closed_store()
    executable = os.fspath(closed.sysbench_program) if closed else shutil.which("sysbench")
    if executable is None:
        raise UsageError("sysbench is not on this machine; install it: apt-get install sysbench")
    for path in (Path(executable), lua() / "dballoc.lua"):
        if blocked := (user := server_user()).blocked_at(path):
            remedy = portable.TO_UNPACK if portable.is_temporary() else f"chmod o+rX {blocked}"
            raise UsageError(
                f"{path}: sysbench runs as {user.name}, which may not read {blocked}; {remedy}"
            )
    try:
        answer = run_unprivileged([executable, "--version"])
    except Unanswered as error:
        raise UsageError(f"{executable} does not run: {error}") from None
    match = re.match(r"sysbench (\d+\.\d+\S*)", answer.stdout)
    if answer.status != 0 or not match:
        last = (answer.stderr or answer.stdout).strip().splitlines()
        raise UsageError(
            f"{executable} does not run: {last[-1] if last else f'exit status {answer.status}'}"
        )
    if match[1].startswith("0."):
        raise UsageError(f"{executable} is sysbench {match[1]}; dballoc needs 1.0 or later")
    near = Path(executable).resolve().parent.parent / "share/sysbench"
    for share in (near, *map(Path, _SHARE)):
        if (share / "oltp_common.lua").exists():
            return Sysbench(Path(executable), match[1], share)
    raise UsageError(f"{executable} has no scripts: no oltp_common.lua in {near}")


def statements(work: Workload, threads: int, tables: int, load: Load) -> int:
    """Return how many prepared statements ``threads`` clients hold at once: those of each table,
    and BEGIN and COMMIT.
    """
    return threads * (tables * work.prepared + 2) if work.prepares(load) else 0


def tables_options(data: Data, engine: str) -> dict[str, str]:
    """Return the options on which prepare and run must agree."""
    tables = {
        "tables": str(data.tables),
        "table-size": str(data.rows),
        "mysql-storage-engine": engine,
    }
    return {**tables, "mysql-db": data.database}


def prepare_options(work: Workload, threads: int, data: Data, engine: str) -> dict[str, str]:
    """Return the options with which a script makes its data."""
    return {**tables_options(data, engine), "threads": str(threads), **_dashed(work.options)}


def run_options(
    work: Workload, threads: int, seconds: float, data: Data, engine: str, load: Load
) -> dict[str, str]:
    """Return the options of a run. Defaults that depend on sysbench's version are set explicitly.
    ``seconds`` 0: no end.
    """
    options = {
        **tables_options(data, engine),
        "threads": str(threads),
        "time": f"{max(1, round(seconds)) if seconds else 0}",
        "events": "0",
        "report-interval": "1",
        "percentile": str(load.percentile),
        "histogram": "on",
        "rand-type": load.random,
        "db-ps-mode": "auto" if work.prepares(load) else "disable",
        **_dashed({**work.options, **load.options}),
    }
    return options


def _dashed(options: Mapping[str, str]) -> dict[str, str]:
    return {k.replace("_", "-"): v for k, v in options.items()}


def connection_options(address: Address, password: str, account: str = USER) -> dict[str, str]:
    """Return how sysbench reaches the server: by the socket, or by TCP if the experiment
    says so, encrypted if there are certificates, which are in its working directory then.
    """
    where = {"mysql-socket": str(address.socket)} if address.port is None else {
        "mysql-host": address.host, "mysql-port": str(address.port)}  # fmt: skip
    if address.certificates:
        where["mysql-ssl"] = "on"
    return {**where, "mysql-user": account, "mysql-password": password, "db-driver": "mysql"}


def write_config(path: Path, options: dict[str, str], user: ServerUser) -> Path:
    """Write a configuration file that only we and the client can read: a password is never an
    argument.
    """
    return write_private(path, "".join(f"{k}={v}\n" for k, v in options.items()), user)


def command(sysbench: Sysbench, config: Path, verb: str, options: dict[str, str]) -> list[str]:
    """Return sysbench's command line; ``verb`` is run or prepare. A script's own options only work
    on the command line, not in the file.
    """
    options_given = [f"--{k}={v}" for k, v in options.items()]
    return [
        str(sysbench.executable),
        f"--config-file={config}",
        str(lua() / "dballoc.lua"),
        *options_given,
        verb,
    ]


def environment(
    sysbench: Sysbench,
    work: Workload,
    intervals: Path,
    program: Path | None = None,
    beside: Beside | None = None,
) -> dict[str, str]:
    """Return the client's environment, without anything of the server's variant. ``program``: a
    compiled SQL file; ``beside``: what its first client runs.
    """
    closed = closed_store.open_closed_store()
    directories = [lua(), *([work.file.parent] if work.file else []), sysbench.share]
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LUA_PATH": "".join(f"{directory}/?.lua;" for directory in directories) + ";",
        "DBALLOC_SCRIPT": work.script,
        "DBALLOC_INTERVALS": str(intervals),
        **({"MARIADB_PLUGIN_DIR": str(closed.sysbench_plugins)} if closed else {}),
        **({"DBALLOC_PROGRAM": str(program)} if program else {}),
        **(
            {"DBALLOC_BESIDE": beside.command, "DBALLOC_BESIDE_LOG": str(beside.log)}
            if beside
            else {}
        ),
    }


def makes_data(sysbench: Sysbench, work: Workload) -> bool:
    """Whether a script has a ``prepare`` of its own. To find out, the script is loaded as the
    server user and without a server, which runs the code outside its functions. UsageError,
    ``FILE:LINE: …``, if one of the user's cannot be loaded.
    """
    if work.file is None:
        return work.brings
    if work.statements:
        return False
    if blocked := server_user().blocked_at(work.file):
        raise UsageError(
            f"workload {work.name!r}: {shown(work.file)}: sysbench runs as {server_user().name}, "
            f"which may not read {blocked}; "
            "make it readable, or move the script"
        )
    try:
        answer = run_unprivileged(
            [sysbench.executable, lua() / "dballoc_inspect.lua", "help"],
            {
                **environment(sysbench, work, Path(os.devnull)),
                "DBALLOC_SHARE": os.fspath(sysbench.share),
            },
        )
    except Unanswered as error:
        raise UsageError(f"workload {work.name!r}: {shown(work.file)}: {error}") from None
    if "dballoc: prepare " not in answer.stdout:
        raise UsageError(script_error(work, answer.stdout + answer.stderr))
    return "dballoc: prepare own" in answer.stdout


def refusal(work: Workload) -> Callable[[Path], UsageError]:
    """Return a function that turns the log of a failed script of the user's into the error."""
    return lambda log: UsageError(script_error(work, log.read_text(errors="replace")))


def script_error(work: Workload, output: str) -> str:
    """Return sysbench's message about a failed script, as ``FILE:LINE: …`` where it names a line;
    for a workload without a file as ``workload NAME: …``.
    """
    lines = [
        line.removeprefix("FATAL: ") for line in output.splitlines() if line.startswith("FATAL")
    ] or output.strip().splitlines()[-1:]
    text = lines[-1] if lines else "sysbench does not run it"
    if work.file is None:
        return f"workload {work.name!r}: {text}"
    if not work.statements:
        # The last line may say no more than that a thread's begin failed; the reason is before it.
        place = re.compile(rf"{re.escape(work.file.name)}:(\d+): (.*)")
        for line in reversed(lines):
            if where := place.search(line):
                return f"{shown(work.file)}:{where[1]}: {where[2]}{_find_server_error(lines)}"
    text = re.sub(r"^`\w+' function failed: \S*dballoc_sql\.lua:\d+: ", "", text)
    return f"{shown(work.file)}: {text}"


def _find_server_error(lines: list[str]) -> str:
    """Return the server's error as it follows ``SQL API error``, which does not tell it."""
    errors = [e for line in lines if (e := re.match(r'MySQL error: (\d+) "(.*)"', line))]
    return f", errno = {errors[-1][1]}: {errors[-1][2]}" if errors else ""

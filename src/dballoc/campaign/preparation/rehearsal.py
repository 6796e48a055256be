"""Rehearse each of the user's own workloads before the first trial, on a copy of the data that is
thrown away.

A mistake in a workload's file is then one error at once, and not a fault in every trial.
"""

import os
import re
import signal
import time
from pathlib import Path

import pymysql

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import remove_own
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.load import client, sql_workload, sysbench_command
from dballoc.load.workload import Workload, shown
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private import private_server
from dballoc.servers.private.admin_connection import Admin
from dballoc.servers.private.data_template import Template

# Seconds after which no further round of a workload's statements begins. The first round is always
# whole; the others try every alternative, and find what works only once.
_ROUNDS_SECONDS = 10.0
_EVENTS = 2
# CR_COMMANDS_OUT_OF_SYNC: sysbench reads only one result of a statement.
_OUT_OF_SYNC = "errno = 2014"
# Errors after which sysbench repeats the event by default.
_TRANSIENT = (1213, 1020, 1205)
_AT_LINE = re.compile(r" at line (\d+)\Z")


def rehearse(
    setting: PreparedCampaign, custody: Custody, templates: dict[str, Template], directory: Path
) -> None:
    """Try the user's own workloads on every kind of data. Raises UsageError for one that fails,
    with ``FILE:LINE`` where that is known.

    ``directory`` is the results directory. If a server does not start, its log is left there, and
    the trials will report it.
    """
    named = [
        setting.sysbench.workload(name)
        for name in setting.experiment.loads
        if name in setting.experiment.workload
    ]
    works = [work for work in named if not (work.program or work.backup)]
    if not works:
        return
    first = {p.recipe.key: p for p in reversed(setting.variants.values())}
    for key, prepared in first.items():
        _rehearse_on_copy(
            setting, custody, prepared, templates[key], works, directory / "rehearsal.log"
        )


def _rehearse_on_copy(
    setting: PreparedCampaign,
    custody: Custody,
    prepared: PreparedVariant,
    template: Template,
    works: list[Workload],
    log: Path,
) -> None:
    """Try ``works`` on a server of this variant, on a copy of its data."""
    remove_own(log)
    scratch, run = (
        directories.make_server_scratch(custody.scratch, setting.user),
        directories.make_run_directory(custody.scratch),
    )
    private = directories.make_run_directory(custody.scratch)
    setting.user.share(run)
    setting.user.show(private)
    running = None
    try:
        template.copy(custody, scratch / "data", log, setting.user)
        address = server_options.Address(run / "mysqld.sock")
        launch = private_server.ServerLaunch(
            argv=server_options.command(
                prepared.build, scratch / "data", address, prepared.options
            ),
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            address=address,
            log=log,
            password=template.password,
            user=setting.user,
        )
        try:
            running = private_server.start(
                custody, launch, setting.experiment.time.start, setting.experiment.data.database
            )
        except private_server.StartFailed:
            return
        config = client.connection_file(private, address, template.password, setting.user)
        for work in works:
            if work.statements:
                _try_statements(running.admin, work)
            _try_events(setting, custody, prepared, work, config)
        remove_own(log)
    except OSError as error:
        raise Failure(f"the data cannot be copied to {scratch}: {error}") from None
    finally:
        if running:
            running.admin.close()
            running.child.stop(signal.SIGKILL, 0)
        for path in (scratch, run, private):
            remove_directory(path)


def _try_statements(admin: Admin, work: Workload) -> None:
    """Try the statements one by one over our own connection, which tells the line of one that
    fails.
    """
    assert work.file
    ignored = _list_ignored_errors(work)
    began = time.monotonic()
    for round_ in range(sql_workload.rounds(work.statements)):
        if round_ and time.monotonic() - began > _ROUNDS_SECONDS:
            return
        for statement, text in zip(
            work.statements, sql_workload.example(work.statements, round_), strict=True
        ):
            try:
                admin.scan(text)
            except pymysql.Error as error:
                number, words = error.args[0], str(error.args[-1])
                if number in ignored or ignored == "all":
                    continue
                # The server counts from the statement's first line.
                line = statement.line + (
                    int(at[1]) - 1 if number == 1064 and (at := _AT_LINE.search(words)) else 0
                )
                again = (
                    ""
                    if round_ == 0
                    else ", when it runs again"
                    if number == 1062
                    else f", with {text!r}"
                )
                raise UsageError(
                    f"{shown(work.file)}:{line}: {_AT_LINE.sub('', words)}{again}"
                ) from None


def _list_ignored_errors(work: Workload) -> tuple[int, ...] | str:
    """Return the error numbers that sysbench ignores in this workload, or "all"."""
    ignored = {k.replace("_", "-"): v for k, v in work.options.items()}.get("mysql-ignore-errors")
    if ignored is None or ignored == "all":
        return ignored or _TRANSIENT
    return tuple(int(w) for w in ignored.split(",") if w.strip().isdigit())


def _try_events(
    setting: PreparedCampaign,
    custody: Custody,
    prepared: PreparedVariant,
    work: Workload,
    config: Path,
) -> None:
    """Run two events with sysbench, as in a trial but with one client: the second meets what the
    first left behind.
    """
    experiment, sysbench = setting.experiment, setting.sysbench
    options = sysbench_command.run_options(
        work, 1, 60, experiment.data, prepared.server.engine, experiment.load
    )
    private = config.parent
    printed = private / "rehearsal.txt"
    remove_own(printed)
    program = client.program_file(private, work, setting.user)
    child = custody.spawn(
        sysbench_command.command(sysbench, config, "run", {**options, "events": str(_EVENTS)}),
        sysbench_command.environment(sysbench, work, Path(os.devnull), program),
        printed,
        **setting.user.as_spawn(),
    )
    exit_ = child.wait(300)
    if exit_ is None:
        child.stop(signal.SIGKILL, 0)
        raise UsageError(
            f"{shown(work.file) if work.file else work.name}: two events take more than five "
            "minutes"
        )
    if exit_.status != 0:
        message = sysbench_command.script_error(work, printed.read_text(errors="replace"))
        if _OUT_OF_SYNC in message and (calls := [s.line for s in work.statements if s.calls]):
            message = (
                f"{shown(work.file or printed)}:{calls[0]}: sysbench cannot call a procedure that "
                "returns rows"
            )
        raise UsageError(message)

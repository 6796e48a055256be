"""The data templates of a campaign: found, or made with the campaign's own client."""

import os
from pathlib import Path

from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_contents
from dballoc.campaign.preparation.prepare import Prepared, Setting
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.ownership import remove
from dballoc.load import client, hammerdb_command, sysbench_command
from dballoc.load.workload import of_catalogue
from dballoc.servers.private import data_template
from dballoc.servers.private.command_line import Address
from dballoc.servers.private.data_template import Fill, Recipe, Template

# Any of sysbench's own scripts makes its tables.
_TABLES = "oltp_read_only"


def of_all_variants(
    setting: Setting, custody: Custody, observer: Observer, log: Path
) -> dict[str, Template]:
    """The templates of every variant by their recipes' keys, made where they are missing. Failure
    if one cannot be made, UsageError if the user's own data are to blame.
    """
    templates: dict[str, Template] = {}
    for prepared in setting.variants.values():
        for recipe in setting.recipes(prepared):
            if recipe.key in templates:
                continue
            if (found := data_template.find(recipe)) is None:
                observer.notice(
                    f"making the data: {prepared.build.title}, {_words(setting, recipe)}"
                )
                found = _make(setting, custody, prepared, recipe, log)
            templates[recipe.key] = found
    return templates


def _words(setting: Setting, recipe: Recipe) -> str:
    of, data = setting.contents, setting.experiment.data
    if of.directory:
        return f"a copy of {of.directory}"
    if of.sql:
        return f"from {', '.join(p.name for p in of.sql)}"
    parts = [f"{data.tables} tables of {data.rows:,} rows"] if of.tables and recipe.tables else []
    return " and ".join([*parts, *(f"what {w.name} prepares" for w in of.makers)]) or "no tables"


def _make(
    setting: Setting, custody: Custody, prepared: Prepared, recipe: Recipe, log: Path
) -> Template:
    run, private = (
        directories.make_run_directory(custody.scratch),
        directories.make_run_directory(custody.scratch),
    )
    setting.user.share(run)
    setting.user.show(private)
    of, data, bench = setting.contents, setting.experiment.data, setting.sysbench

    def prepare(address: Address, password: str) -> list[Fill]:
        if of.sql:
            reader = data_contents.reader(prepared.build)
            account = client.option_file(private, address, password, setting.user)
            return [data_contents.feed(p, reader, account, data.database) for p in of.sql]
        config = client.connection_file(private, address, password, setting.user)
        fills = []
        for work in ([of_catalogue(_TABLES)] if of.tables and recipe.tables else []) + list(
            of.makers
        ):
            threads, engine = len(os.sched_getaffinity(0)), prepared.server.engine
            if work.driver == "hammerdb":
                account = client.option_file(private, address, password, setting.user)
                argv = hammerdb_command.command(
                    hammerdb_command.prepare(work, threads, engine, account, run)
                )
                env = hammerdb_command.environment(run)
                fills.append(
                    Fill(
                        argv=argv,
                        env=env,
                        stdin=None,
                        failure=f"{work.name} cannot prepare",
                        refused=sysbench_command.refusal(work),
                    )
                )
                continue
            options = sysbench_command.prepare_options(work, threads, data, engine)
            argv = sysbench_command.command(bench, config, "prepare", options)
            env = sysbench_command.environment(bench, work, Path(os.devnull))
            if work.file is None and not work.brings:
                fills.append(Fill(argv=argv, env=env))
            else:
                fills.append(
                    Fill(
                        argv=argv,
                        env=env,
                        stdin=None,
                        failure=f"{work.name} cannot prepare",
                        refused=sysbench_command.refusal(work),
                    )
                )
        return fills

    log.unlink(missing_ok=True)
    try:
        return data_template.make(custody, recipe, setting.user, prepare, (run, private), log)
    finally:
        for path in (run, private):
            remove(path)

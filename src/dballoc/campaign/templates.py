"""The data templates of a campaign: found, or made with the campaign's own client."""

import os
import shutil
from pathlib import Path

from dballoc.campaign import contents
from dballoc.campaign.observer import Observer
from dballoc.campaign.prepare import Prepared, Setting
from dballoc.host import places
from dballoc.host.custody import Custody
from dballoc.load import client, hammerdb, sysbench
from dballoc.load.workload import of_catalogue
from dballoc.servers import template
from dballoc.servers.options import Address
from dballoc.servers.template import Fill, Recipe, Template

# Any of sysbench's own scripts makes its tables.
_TABLES = "oltp_read_only"


def of_all_variants(setting: Setting, custody: Custody, observer: Observer, log: Path) -> dict[str, Template]:
    """The templates of every variant by their recipes' keys, made where they are missing. Failure if one cannot be made,
    UsageError if the user's own data are to blame.
    """
    templates: dict[str, Template] = {}
    for prepared in setting.variants.values():
        for recipe in setting.recipes(prepared):
            if recipe.key in templates:
                continue
            if (found := template.find(recipe)) is None:
                observer.notice(f"making the data: {prepared.build.title}, {_words(setting, recipe)}")
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


def _make(setting: Setting, custody: Custody, prepared: Prepared, recipe: Recipe, log: Path) -> Template:
    run_directory = places.make_run_directory(custody.scratch)
    setting.user.give(run_directory)
    of, data, bench = setting.contents, setting.experiment.data, setting.sysbench

    def prepare(address: Address, password: str) -> list[Fill]:
        if of.sql:
            reader = contents.reader(prepared.build)
            return [contents.feed(p, reader, address, password, data.database, run_directory) for p in of.sql]
        config = sysbench.write_config(run_directory / "sysbench.cnf", sysbench.connection_options(address, password))
        fills = []
        for work in ([of_catalogue(_TABLES)] if of.tables and recipe.tables else []) + list(of.makers):
            threads, engine = len(os.sched_getaffinity(0)), prepared.server.engine
            if work.driver == "hammerdb":
                task = hammerdb.prepare(work, threads, engine, client.option_file(run_directory, address, password))
                argv, env = hammerdb.command(task), hammerdb.environment()
                fills.append(Fill(argv, env, None, f"{work.name} cannot prepare", sysbench.refusal(work)))
                continue
            options = sysbench.prepare_options(work, threads, data, engine)
            argv = sysbench.command(bench, config, "prepare", options)
            env = sysbench.environment(bench, work, Path(os.devnull))
            if work.file is None and not work.brings:
                fills.append(Fill(argv, env))
            else:
                fills.append(Fill(argv, env, None, f"{work.name} cannot prepare", sysbench.refusal(work)))
        return fills

    log.unlink(missing_ok=True)
    try:
        return template.make(custody, recipe, setting.user, prepare, run_directory, log)
    finally:
        shutil.rmtree(run_directory, ignore_errors=True)

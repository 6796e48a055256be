"""The data templates of a campaign: found, or made with the campaign's own client."""

import os
import shutil
from pathlib import Path

from dballoc.campaign.observer import Observer
from dballoc.campaign.prepare import Prepared, Setting
from dballoc.host import places
from dballoc.host.custody import Custody
from dballoc.load import sysbench
from dballoc.servers import template
from dballoc.servers.options import Address
from dballoc.servers.template import Template


def of_all_variants(setting: Setting, custody: Custody, observer: Observer, log: Path) -> dict[str, Template]:
    """The template of every variant by its recipe's key, made where it is missing. Failure if one cannot be made."""
    templates: dict[str, Template] = {}
    for prepared in setting.variants.values():
        key = prepared.recipe.key
        if key in templates:
            continue
        if (found := template.find(prepared.recipe)) is None:
            data = setting.experiment.data
            observer.notice(f"making the data: {prepared.build.title}, {data.tables} tables of {data.rows:,} rows")
            found = _make(setting, custody, prepared, log)
        templates[key] = found
    return templates


def _make(setting: Setting, custody: Custody, prepared: Prepared, log: Path) -> Template:
    run_directory = places.make_run_directory(custody.scratch)
    setting.user.give(run_directory)

    def prepare(address: Address, password: str) -> tuple[list[str], dict[str, str]]:
        config = sysbench.write_config(run_directory / "sysbench.cnf", sysbench.connection_options(address, password))
        options = sysbench.tables_options(setting.experiment.data, prepared.server.engine)
        options["threads"] = str(len(os.sched_getaffinity(0)))
        return (
            sysbench.command(setting.sysbench, config, "prepare", options),
            sysbench.environment(setting.sysbench, setting.experiment.workloads[0], Path(os.devnull)),
        )

    log.unlink(missing_ok=True)
    try:
        return template.make(custody, prepared.recipe, setting.user, prepare, run_directory, log)
    finally:
        shutil.rmtree(run_directory, ignore_errors=True)

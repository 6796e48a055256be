"""The data templates of a campaign: found, or made with the campaign's own client."""

import os
from dataclasses import dataclass
from pathlib import Path

from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_contents
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.ground.files.output_directory import remove_own
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.resources.cpus import list_available_cpus
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.load import client, hammerdb_command, sysbench_command
from dballoc.load.workload import Workload, of_catalogue
from dballoc.servers.private import data_template
from dballoc.servers.private.command_line import Address
from dballoc.servers.private.data_template import Fill, Recipe, Template

# Any of sysbench's own scripts makes its tables.
_TABLES = "oltp_read_only"
# The most clients that fill a template: every server has connections for so many.
_MOST_CLIENTS = 128


def prepare_data_templates(
    setting: PreparedCampaign, custody: Custody, observer: Observer, log: Path
) -> dict[str, Template]:
    """Find the templates of every variant, and make the missing ones; returns them by their
    recipes' keys. Raises Failure if one cannot be made, UsageError if the user's own data are to
    blame.
    """
    templates: dict[str, Template] = {}
    for prepared in setting.variants.values():
        for recipe in setting.data_recipes(prepared):
            if recipe.key in templates:
                continue
            template = data_template.find(recipe)
            if template is None:
                data = _describe_data(setting, recipe)
                observer.notice(f"making the data: {prepared.build.title}, {data}")
                template = _make_template(setting, custody, prepared, recipe, log)
            templates[recipe.key] = template
    return templates


def _describe_data(setting: PreparedCampaign, recipe: Recipe) -> str:
    contents, data = setting.contents, setting.experiment.data
    if contents.directory:
        return f"a copy of {contents.directory}"
    if contents.sql:
        return f"from {', '.join(p.name for p in contents.sql)}"
    parts = [f"what {work.name} prepares" for work in contents.makers]
    if contents.tables and recipe.tables:
        parts.insert(0, f"{data.tables} tables of {data.rows:,} rows")
    return " and ".join(parts) or "no tables"


@dataclass(frozen=True, kw_only=True)
class _Filling:
    """A server without data, and the data to fill it with. ``run`` is the clients' working
    directory; they read their configuration in ``private``.
    """

    setting: PreparedCampaign
    prepared: PreparedVariant
    recipe: Recipe
    run: Path
    private: Path

    def list_fills(self, address: Address, password: str) -> list[Fill]:
        """Return the clients that fill the server at ``address``, in their order."""
        contents, user = self.setting.contents, self.setting.user
        option_file = client.option_file(self.private, address, password, user)
        if contents.sql:
            program = data_contents.find_sql_client(self.prepared.build)
            database = self.setting.experiment.data.database
            return [
                data_contents.make_sql_fill(path, program, option_file, database)
                for path in contents.sql
            ]
        config = client.connection_file(self.private, address, password, user)
        tables = [of_catalogue(_TABLES)] if contents.tables and self.recipe.tables else []
        return [
            self._fill_by_hammerdb(work, option_file)
            if work.driver == "hammerdb"
            else self._fill_by_sysbench(work, config)
            for work in [*tables, *contents.makers]
        ]

    def _fill_by_hammerdb(self, work: Workload, option_file: Path) -> Fill:
        threads = count_fill_clients(work, len(list_available_cpus()))
        engine = self.prepared.server.engine
        task = hammerdb_command.prepare(work, threads, engine, option_file, self.run)
        return _make_script_fill(
            work, hammerdb_command.command(task), hammerdb_command.environment(self.run)
        )

    def _fill_by_sysbench(self, work: Workload, config: Path) -> Fill:
        sysbench, data = self.setting.sysbench, self.setting.experiment.data
        threads = count_fill_clients(work, len(list_available_cpus()), data.tables)
        engine = self.prepared.server.engine
        options = sysbench_command.prepare_options(work, threads, data, engine)
        argv = sysbench_command.command(sysbench, config, "prepare", options)
        env = sysbench_command.environment(sysbench, work, Path(os.devnull))
        if work.file is None and not work.brings:
            return Fill(argv=argv, env=env)
        return _make_script_fill(work, argv, env)


def count_fill_clients(work: Workload, cpus: int, tables: int | None = None) -> int:
    """Return how many clients make a workload's data: one for each CPU; of sysbench's own
    ``tables``, which it makes one after the other in each client, no more than there are. Pure.
    """
    most = _MOST_CLIENTS if tables is None or work.brings or work.file else tables
    return min(cpus, most, _MOST_CLIENTS)


def _make_script_fill(work: Workload, argv: list[str], env: dict[str, str]) -> Fill:
    """Return the fill of a script's own ``prepare``, whose failure is the user's error."""
    return Fill(
        argv=argv,
        env=env,
        stdin=None,
        failure=f"{work.name} cannot prepare",
        refused=sysbench_command.refusal(work),
    )


def _make_template(
    setting: PreparedCampaign,
    custody: Custody,
    prepared: PreparedVariant,
    recipe: Recipe,
    log: Path,
) -> Template:
    run = directories.make_run_directory(custody.scratch)
    private = directories.make_run_directory(custody.scratch)
    setting.user.share(run)
    setting.user.show(private)
    filling = _Filling(setting=setting, prepared=prepared, recipe=recipe, run=run, private=private)
    remove_own(log)
    try:
        return data_template.make(
            custody, recipe, setting.user, filling.list_fills, (run, private), log
        )
    finally:
        for path in (run, private):
            remove_directory(path)

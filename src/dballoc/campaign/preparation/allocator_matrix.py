"""Allocators under a server, each started once, proved in use, asked one query, and stopped: what
runs here, and what not.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pymysql

from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates, prepare
from dballoc.campaign.preparation.prepare import Setting
from dballoc.campaign.preparation.variant_malloc import GlibcTooOld
from dballoc.campaign.trials.fault import Fault
from dballoc.campaign.trials.server_in_trial import Context, Life
from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment, Server
from dballoc.fetch import name_and_version, private_store
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody

# Just enough of data to ask for a row of it.
_DATA = {"tables": 1, "rows": 100}
_OPTIONS = {
    "innodb": {"innodb_buffer_pool_size": "32M"},
    "rocksdb": {"rocksdb_block_cache_size": "32M"},
}


@dataclass(frozen=True, kw_only=True)
class Proof:
    """``library``: the file that malloc and its kin lead to in the running server, None where it
    does not run: ``refused`` says why. ``glibc``: the C library that was put under it for this
    allocator, None for the server's own.
    """

    server: str
    version: str
    engine: str
    allocator: str
    allocator_version: str
    library: str | None
    glibc: str | None
    seconds: float
    refused: str | None

    @property
    def words(self) -> str:
        """For a table."""
        if self.library is None:
            return f"refused: {self.refused}"
        return f"malloc leads to {self.library}" + (
            f", on glibc {self.glibc}" if self.glibc else ""
        )


def prove(server: Server, allocators: list[str], observer: Observer) -> Iterator[Proof]:
    """Each allocator under the server, in this order; ``builtin`` for what it was built with.

    One that needs a newer C library than the server's gets the newest that was fetched. Failure if
    a server that should start does not.
    """
    with Custody(adopt=True) as custody:
        for word in allocators:
            try:
                yield _prove(_experiment(server, word), word, custody, observer)
            except GlibcTooOld as error:
                newer = name_and_version.newest(k.version for k in private_store.kept("glibc"))
                if (
                    newer is None
                    or server.glibc
                    or name_and_version.order(newer) < name_and_version.order(error.needs)
                ):
                    yield _refused(server, word, error)
                    continue
                lifted = server.model_copy(update={"glibc": newer})
                try:
                    yield _prove(_experiment(lifted, word), word, custody, observer)
                except (UsageError, Failure) as again:
                    yield _refused(lifted, word, again)
            except (UsageError, Failure) as error:
                yield _refused(server, word, error)


def _experiment(server: Server, word: str) -> Experiment:
    options = _OPTIONS.get(server.engine, {}) | server.options
    chosen = server.model_copy(update={"options": options}).model_dump(
        mode="json", exclude_none=True
    )
    table = {
        "name": "proof",
        "design": "solo",
        "baseline": "proof",
        "workloads": ["oltp_read_only"],
        "threads": [1],
        "server": chosen,
        "data": _DATA,
        "variant": [{"name": "proof", "allocator": word}],
    }
    return experiment_file.build(table, "proof")


def _prove(experiment: Experiment, word: str, custody: Custody, observer: Observer) -> Proof:
    setting = prepare.settle(experiment)
    directory = directories.make_run_directory(custody.scratch)
    try:
        template = data_templates.of_all_variants(
            setting, custody, observer, directory / "template.log"
        )
        life = Life(
            Context(setting, custody, observer, lambda: False),
            "proof",
            next(iter(template.values())),
            directory,
        )
        try:
            return _start(setting, life, word)
        finally:
            life.clean_up()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _start(setting: Setting, life: Life, word: str) -> Proof:
    prepared = life.prepared
    refused, seconds = None, 0.0
    try:
        life.start()
        life.wait_until_ready()
        seconds = life.running.seconds_to_start
        life.running.admin.rows(
            f"SELECT count(*) FROM `{setting.experiment.data.database}`.sbtest1"
        )
        life.shut_down()
    except Fault as fault:
        life.note_fault(fault)
        refused = str(fault)
    except pymysql.Error as error:
        refused = str(error.args[-1])
    return Proof(
        server=prepared.server.use,
        version=prepared.build.version,
        engine=prepared.server.engine,
        allocator=word,
        allocator_version=prepared.allocator.version,
        library=None if refused else prepared.bindings.provider["malloc"],
        glibc=prepared.server.glibc,
        seconds=seconds,
        refused=refused,
    )


def _refused(server: Server, word: str, error: Exception) -> Proof:
    why = re.sub(r"^variant 'proof': ", "", str(error))
    return Proof(
        server=server.use,
        version="",
        engine=server.engine,
        allocator=word,
        allocator_version="",
        library=None,
        glibc=server.glibc,
        seconds=0.0,
        refused=why,
    )

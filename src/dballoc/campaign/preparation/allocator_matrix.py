"""Which allocators run under a server here: with each the server is started once, the allocator
proved in use, one query run, and the server stopped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pymysql

from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import data_templates, prepare
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.variant_malloc import GlibcTooOld
from dballoc.campaign.trial.data_copies import DataCopies
from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext
from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment, Server
from dballoc.fetch import name_and_version, private_store
from dballoc.ground.errors import Failure, UsageError
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.ownership import remove_directory

# Just enough data to query a row of it.
_DATA = {"tables": 1, "rows": 100}
_OPTIONS = {
    "innodb": {"innodb_buffer_pool_size": "32M"},
    "rocksdb": {"rocksdb_block_cache_size": "32M"},
}


@dataclass(frozen=True, kw_only=True)
class AllocatorProof:
    """Whether one allocator runs under a server. ``library``: the file that malloc leads to in the
    running server, or None if it does not run and ``refused`` says why. ``glibc``: the C library
    that the server ran on for this allocator, None for its own. ``seconds``: of the server's start.
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
        """The result in words, for a table."""
        if self.library is None:
            return f"refused: {self.refused}"
        return f"malloc leads to {self.library}" + (
            f", on glibc {self.glibc}" if self.glibc else ""
        )


def prove_allocators(
    server: Server, allocators: list[str], observer: Observer
) -> Iterator[AllocatorProof]:
    """Prove each allocator under the server, in this order; ``builtin``: the malloc that it was
    built with.

    An allocator that needs a newer C library than the server's gets the newest one that was
    fetched.
    """
    with Custody(adopt=True) as custody:
        for reference in allocators:
            try:
                yield _prove_allocator(
                    _make_experiment(server, reference), reference, custody, observer
                )
            except GlibcTooOld as error:
                newer = name_and_version.choose_newest(
                    k.version for k in private_store.list_fetched("glibc")
                )
                if (
                    newer is None
                    or server.glibc
                    or name_and_version.parse_version_numbers(newer)
                    < name_and_version.parse_version_numbers(error.needs)
                ):
                    yield _make_refusal(server, reference, error)
                    continue
                with_newer_glibc = server.model_copy(update={"glibc": newer})
                try:
                    yield _prove_allocator(
                        _make_experiment(with_newer_glibc, reference), reference, custody, observer
                    )
                except (UsageError, Failure) as second_error:
                    yield _make_refusal(with_newer_glibc, reference, second_error)
            except (UsageError, Failure) as error:
                yield _make_refusal(server, reference, error)


def _make_experiment(server: Server, reference: str) -> Experiment:
    options = _OPTIONS.get(server.engine, {}) | server.options
    server_table = server.model_copy(update={"options": options}).model_dump(
        mode="json", exclude_none=True
    )
    experiment = {
        "name": "proof",
        "design": Design.SOLO.value,
        "baseline": "proof",
        "workloads": ["oltp_read_only"],
        "threads": [1],
        "server": server_table,
        "data": _DATA,
        "variant": [{"name": "proof", "allocator": reference}],
    }
    return experiment_file.build_experiment(experiment, "proof")


def _prove_allocator(
    experiment: Experiment, reference: str, custody: Custody, observer: Observer
) -> AllocatorProof:
    setting = prepare.prepare_campaign(experiment)
    directory = directories.make_run_directory(custody.scratch)
    try:
        template = data_templates.prepare_data_templates(
            setting, custody, observer, directory / "template.log"
        )
        life = ServerLife(
            TrialContext(
                setting=setting,
                custody=custody,
                copies=DataCopies(custody, setting.user, again=False, most=1),
                observer=observer,
                stopping=lambda: False,
            ),
            "proof",
            next(iter(template.values())),
            directory,
        )
        try:
            return _run_query(setting, life, reference)
        finally:
            life.clean_up()
    finally:
        remove_directory(directory)


def _run_query(setting: PreparedCampaign, life: ServerLife, reference: str) -> AllocatorProof:
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
    return AllocatorProof(
        server=prepared.server.use,
        version=prepared.build.version,
        engine=prepared.server.engine,
        allocator=reference,
        allocator_version=prepared.allocator.version,
        library=None if refused else prepared.bindings.provider["malloc"],
        glibc=prepared.server.glibc,
        seconds=seconds,
        refused=refused,
    )


def _make_refusal(server: Server, reference: str, error: Exception) -> AllocatorProof:
    why = re.sub(r"^variant 'proof': ", "", str(error))
    return AllocatorProof(
        server=server.use,
        version="",
        engine=server.engine,
        allocator=reference,
        allocator_version="",
        library=None,
        glibc=server.glibc,
        seconds=0.0,
        refused=why,
    )

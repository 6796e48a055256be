"""One server in a trial: its data, start, proof of use, marks and shutdown. Whatever goes wrong is
a Fault.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql

from dballoc.allocators import proof_of_use, reported_tunables, tunables
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.campaign.trial import trial_rows
from dballoc.campaign.trial.client_host import ClientHost
from dballoc.campaign.trial.data_copies import DataCopies
from dballoc.campaign.trial.fault import Fault, FaultExaminer, explain_sigkill
from dballoc.campaign.trial.host_thp import check_host_thp
from dballoc.experiment import secret_names
from dballoc.experiment.cpu_list import format_cpus
from dballoc.experiment.trial_steps import Step
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import write_own
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Child, Custody, Exit
from dballoc.host.process import maps as process_maps
from dballoc.host.resources import cgroup
from dballoc.host.settings import thp
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.instruments import memory_marks
from dballoc.instruments.host_sampler import HostSample
from dballoc.instruments.memory_marks import MemoryMark
from dballoc.instruments.perf_events import CannotCount
from dballoc.instruments.process_sampler import ProcessSampler
from dballoc.instruments.server_counters import Reading, ServerCounters
from dballoc.instruments.ways_in import preload
from dballoc.instruments.ways_in.preload_socket import RECORDER, PreloadKind
from dballoc.load import client
from dballoc.load.transaction_counter import TransactionCounter
from dballoc.process import snapshot
from dballoc.process.malloc import malloc_bindings as running_process
from dballoc.servers.private import binary_log, private_server
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private.certificates import write_certificates
from dballoc.servers.private.client_connections import ConnectionMeter
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord
from dballoc.store.rows import ClientConnectionRow, MeasuredTrial


class Interrupted(Exception):
    """The user asked dballoc to stop; the trial under way is lost."""


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """What all trials of a campaign share. ``stopping``: whether the user asked to stop;
    ``client_host``: where their clients run, None for this host.
    """

    setting: PreparedCampaign
    custody: Custody
    copies: DataCopies
    observer: Observer
    stopping: Callable[[], bool]
    client_host: ClientHost | None = None


def check_encryption(connections: Iterable[ClientConnectionRow]) -> None:
    """Raises Fault if, by the server's own count, none of the load's connections was encrypted;
    passes if there were none.
    """
    for counted in connections:
        if counted.made and not counted.encrypted:
            raise Fault(
                "proof",
                f"none of the load's {counted.made} connections was encrypted: this server, or "
                'sysbench\'s client library, has no TLS; use connect = "tcp"',
            )


class ServerLife:
    """One start of one variant: :meth:`start`, :meth:`wait_until_ready`, the load,
    :meth:`shut_down`; :meth:`clean_up` at any point.

    ``directory`` is for the raw files; ``record`` becomes its rows in the results database;
    ``instrument``: preloaded ahead of the malloc; then nothing is measured.
    """

    def __init__(
        self,
        context: TrialContext,
        variant: str,
        template: Template,
        directory: Path,
        *,
        cpus: frozenset[int] | None = None,
        thp_disable: bool = False,
        instrument: PreloadKind | None = None,
    ) -> None:
        self.context = context
        self.prepared: PreparedVariant = context.setting.variants[variant]
        self.directory = directory
        self.t0 = time.monotonic()
        self.log = directory / "server.log"
        self.record = TrialRecord(trial=MeasuredTrial(started=time.time()))
        self.ended: Exit | None = None
        self.mark: MemoryMark | None = None
        self._cpus = cpus
        self._thp_disable = thp_disable
        self._template = template
        self._limit = context.setting.experiment.limits.memory
        self._time = context.setting.experiment.time
        self._cgroup: cgroup.MemoryCgroup | None = None
        self._child: Child | None = None
        self._running: private_server.Running | None = None
        self._sampler: ProcessSampler | None = None
        self._counters: ServerCounters | None = None
        self._counted_events = () if instrument else context.setting.countable.events
        self._asked_to_stop = 0.0
        self._connections: ConnectionMeter | None = None
        # False for a replica: all its connections are dballoc's.
        self.has_clients = True
        # The THP settings that the host must have while this server runs.
        self.host_thp: Mapping[str, str] = {}
        self._copy = context.copies.take(template, self.prepared)
        self.scratch = self._copy.scratch
        self.run_directory = directories.make_run_directory(context.custody.scratch)
        self.private_directory = directories.make_run_directory(context.custody.scratch)
        if instrument:
            self._add_instrument(instrument)
        self.examiner = self._make_examiner()

    def _add_instrument(self, instrument: PreloadKind) -> None:
        """Preload an instrument of ours ahead of the malloc, at work from the server's start; its
        socket, and the recorder's file, are in the run directory.
        """
        record = self.context.setting.experiment.record if instrument is RECORDER else None
        size = record.limit if record else instrument.size
        env = preload.add_to_environment(
            self.prepared.env, instrument, os.fspath(self.run_directory), size
        )
        library = os.fspath(preload.find_library(instrument).resolve())
        wrappers = (*self.prepared.wrappers, library)
        self.prepared = replace(self.prepared, env=env, wrappers=wrappers)

    @property
    def running(self) -> private_server.Running:
        """The server, once :meth:`wait_until_ready` has returned."""
        assert self._running
        return self._running

    @property
    def sampler(self) -> ProcessSampler:
        """The sampler of the server process, once :meth:`wait_until_ready` has returned."""
        assert self._sampler
        return self._sampler

    @property
    def connections(self) -> ConnectionMeter:
        """What counts connections, once :meth:`wait_until_ready` has returned."""
        assert self._connections
        return self._connections

    @property
    def counted_events(self) -> list[str]:
        """The names of the events that are counted, in the order of a reading's counts."""
        return [event.name for event in self._counted_events]

    # -- start ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Copy the data, unless those of an earlier server may be used again, and start the server
        without waiting for it. Raises Fault if the data cannot be copied.
        """
        user = self.context.setting.user
        user.share(self.run_directory)
        user.show(self.private_directory)
        data = self._copy.data
        try:
            self.context.copies.fill(self._copy, self._template, self.directory / "copy.log")
        except OSError as error:
            raise Fault("disk", f"the data cannot be copied to {data}: {error}") from None
        if self._limit is not None:
            self._cgroup = cgroup.create_memory_cgroup(self.context.custody, self._limit)
            self.examiner = self._make_examiner()
        self.address = self._choose_address()
        self.password = self._template.password
        self._launch = private_server.ServerLaunch(
            argv=server_options.command(
                self.prepared.build, data, self.address, self.prepared.options
            ),
            env=self.prepared.env,
            address=self.address,
            log=self.log,
            password=self.password,
            user=user,
            cpus=self._cpus,
            nofile=self.prepared.nofile,
            cgroup=[self._cgroup.procs] if self._cgroup else None,
            thp_disable=self._thp_disable,
        )
        self._child = private_server.spawn(self.context.custody, self._launch)

    def _choose_address(self) -> server_options.Address:
        socket = self.run_directory / "mysqld.sock"
        host = self.context.client_host
        if host is None and self.prepared.server.connect == "socket":
            return server_options.Address(socket)
        address = host.listen if host else server_options.LOOPBACK
        try:
            port = private_server.free_port(address)
        except OSError as error:
            raise Failure(f"{address}: no address of this host: {error.strerror}") from None
        certificates = None
        if self.prepared.server.connect == "tls":
            user = self.context.setting.user
            certificates = write_certificates(self.private_directory, address, user)
        return server_options.Address(socket, port, address, certificates)

    def wait_until_ready(self) -> None:
        """Wait until the server answers, prove its malloc, take the first mark. Raises Fault if it
        does not answer, or its malloc is not proved.
        """
        assert self._child
        database = self.context.setting.experiment.data.database
        try:
            self._running = private_server.answering(
                self._child, self._launch, self._time.start, database
            )
        except private_server.StartFailed as error:
            self.ended = error.exit
            raise self.examiner.explain_failed_start(str(error), error.exit) from None
        self.record.trial.seconds_to_start = self._running.seconds_to_start
        self._sampler = ProcessSampler(self._running.process)
        self._prove_malloc()
        check_host_thp(self.host_thp)
        if self.context.client_host:
            with self.ask("its start", "the load's account"):
                self.context.client_host.open_account(self.running.admin, database)
        self._begin_to_count()
        self.take_mark(0)
        assert self.mark
        self.record.trial.rss_start = self.mark.rss
        with self.ask("its start", "SHOW GLOBAL STATUS"):
            self._connections = ConnectionMeter(
                self.running.admin, over_tcp=self.address.port is not None
            )

    def _begin_to_count(self) -> None:
        """Count what the host counts, from now on. Nobody else has connected yet, so hardly a
        thread starts meanwhile.
        """
        if not self._counted_events:
            return
        try:
            self._counters = ServerCounters.open(self.running.process, self._counted_events)
        except CannotCount as error:
            self.context.observer.notice(f"{self.prepared.variant.name}: no counters: {error}")

    def _make_examiner(self) -> FaultExaminer:
        complaints = self.prepared.allocator.entry.get("complaints", [])
        return FaultExaminer(
            log=self.log,
            scratch=self.scratch,
            complaints=complaints,
            cgroup=self._cgroup,
            memory_limit=self._limit,
        )

    def _prove_malloc(self) -> None:
        running = self.running
        maps = process_maps.read_maps_text(running.process)
        write_own(self.directory / "maps.txt", maps)
        variables = running.admin.variables()
        _write_variables(self.directory / "variables.tsv", variables)
        reported = variables.get("version_malloc_library")
        expected = self.prepared.allocator.entry.get("word")
        try:
            live: dict[str, str] | None = running_process.read_bindings(running.process)
        except Failure:
            # The host forbids it (ptrace_scope); the loader's bindings at --version were checked.
            live = None
        self.record.trial.proof = json.dumps(
            proof_of_use.summarize_proof(self.prepared.bindings, live, reported)
        )
        self.record.trial.thp = thp.describe_process_mode(
            running.process, self.prepared.variant.host_settings
        )
        self.record.trial.cpus = format_cpus(os.sched_getaffinity(running.process.pid))
        try:
            if live:
                executable = os.path.realpath(self.prepared.build.executable)
                bindings = proof_of_use.Bindings(live, "", executable)
                proof_of_use.check_bindings(
                    bindings, self.prepared.allocator.providers, [], self.prepared.wrappers
                )
            mapped = {line.path for line in process_maps.parse_maps(maps)}
            proof_of_use.check_running(
                mapped, reported, expected, self.prepared.allocator.providers
            )
        except proof_of_use.NotProved as error:
            raise Fault("proof", str(error)) from None
        if complaint := self.examiner.find_complaint():
            raise Fault("proof", complaint)
        if self.prepared.settings:
            self._check_settings(
                reported_tunables.read_running_settings(self.prepared.allocator, running.process)
            )
        if (
            self.prepared.variant.wants_huge_pages
            and not self._thp_disable
            and thp.is_thp_allowed(running.process) is False
        ):
            raise Fault(
                "proof", "the server switched THP off for itself in spite of dballoc's shim"
            )

    def _check_settings(self, reported: dict[str, str]) -> None:
        """Raises Fault if the allocator reports another value of a setting than the variant gives
        it.
        """
        mismatch = tunables.find_setting_not_taken(
            self.prepared.allocator, self.prepared.settings, reported
        )
        if mismatch:
            raise Fault("proof", mismatch)

    # -- while it runs --------------------------------------------------------------------------

    def read_counters(self) -> list[Reading]:
        """Read the server's counters: one reading, or none where nothing is counted."""
        return [self._counters.read()] if self._counters else []

    def take_mark(self, step: int) -> None:
        """Take a mark of the server's memory after ``step``, and keep it in the record."""
        self.mark = memory_marks.take_mark(self.running.process)
        self.record.rows.append(trial_rows.make_mark_row(step, self.mark, self.t0))

    def keep_ledger(self) -> None:
        """Keep the ledger of the server's memory in the record. Reading it takes milliseconds to a
        second, so the server must be at rest.
        """
        try:
            self.record.rows += trial_rows.make_ledger_rows(
                build_ledger(snapshot.take_process_snapshot(self.running.process))
            )
        except Failure:
            pass  # the host forbids it (ptrace_scope); the report says that there is no ledger

    def empty_binary_log(self, when: str) -> None:
        """Empty the server's binary log, where it has one, so that the disk has to hold one step's
        alone. Fault, which names the moment ``when``, if the server does not answer.
        """
        if not binary_log.writes_binary_log(self.prepared.options):
            return
        with self.ask(when, "PURGE BINARY LOGS"):
            self.running.admin.empty_binary_log()

    def write_status(self, name: str, when: str) -> None:
        """Write SHOW GLOBAL STATUS to a raw file. Fault, which names the moment ``when``, if the
        server does not answer.
        """
        with self.ask(when, "SHOW GLOBAL STATUS"):
            status = self.running.admin.status()
        _write_variables(self.directory / f"status-{name}.tsv", status)

    @contextlib.contextmanager
    def ask(self, when: str, statement: str) -> Iterator[None]:
        """Ask the server something in this block. Raises Fault, which names the moment ``when`` and
        the ``statement``, if it does not answer.
        """
        try:
            yield
        except pymysql.Error as error:
            raise self.explain_refusal(error, when, statement) from None

    def explain_refusal(self, error: pymysql.Error, when: str, statement: str) -> Fault:
        """Return why dballoc's own ``statement`` failed: the server died, or its error message."""
        if self.running.child.wait(2.0):
            return self.explain_death(when)
        return Fault("client", f"{when}: {statement}: {error.args[-1]}")

    def check_alive(self, when: str) -> None:
        """Raises Interrupted if the user asked to stop; Fault if the server has ended."""
        if self.context.stopping():
            raise Interrupted
        if self.running.child.poll():
            raise self.explain_death(when)

    def explain_death(self, when: str) -> Fault:
        """Return why the server, which has ended or is about to, ended."""
        self.ended = self.running.child.wait(5)
        return self.examiner.explain_death(f"at {when}", self.ended)

    def start_client(
        self,
        step: Step,
        seconds: float,
        cpus: frozenset[int] | None,
        places: client.Places | None = None,
        *,
        counter: TransactionCounter | None = None,
    ) -> client.Client:
        """Start the client of a step on this host; it runs for ``seconds``. ``places``: those of
        another server that it loads, None: of this one; ``counter``: of its transactions.
        """
        assert step.workload and step.threads
        setting = self.context.setting
        job = client.ClientJob(
            workload=step.workload,
            threads=step.threads,
            seconds=seconds,
            data=setting.experiment.data,
            engine=self.prepared.server.engine,
            load=setting.experiment.load,
            program=self.prepared.programs.get(step.workload),
        )
        running = client.start(
            custody=self.context.custody,
            user=setting.user,
            bench=setting.sysbench,
            job=job,
            places=places or self.write_client_files(),
            raw=self.directory,
            name=step.file_name,
            cpus=cpus,
            counter=counter,
        )
        self.connections.own_connections += running.own_connections
        with contextlib.suppress(ProcessLookupError):  # it may have ended already
            self.record.trial.client_cpus = format_cpus(os.sched_getaffinity(running.pid))
        return running

    def write_client_files(self) -> client.Places:
        """Write the file with the server's address and our account, and return where clients find
        it and where they may make files of their own.
        """
        user = self.context.setting.user
        connection = client.connection_file(
            self.private_directory, self.address, self.password, user
        )
        return client.Places(connection, self.run_directory)

    # -- end ------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Begin an orderly shutdown, without waiting for it."""
        # A server that does not answer shows when it is stopped.
        with contextlib.suppress(pymysql.Error):
            if self.has_clients and (counted := self.connections.read()):
                self.record.rows.append(ClientConnectionRow(**vars(counted)))
        self._asked_to_stop = time.monotonic()
        self.running.admin.close()
        self.running.child.send(signal.SIGTERM)

    def shut_down(self) -> None:
        """Shut the server down in order. Raises Fault if it hangs, or exits with an error."""
        if not self._asked_to_stop:
            self.ask_to_stop()
        patience = self._time.stop
        self.ended = self.running.child.wait(patience) or self.running.child.stop(signal.SIGKILL, 0)
        trial = self.record.trial
        trial.exit_status = self.ended.status
        trial.server_user, trial.server_system = self.ended.user, self.ended.system
        if self.ended.status == -signal.SIGKILL:
            sigkill = (
                explain_sigkill(self.ended)
                if time.monotonic() - self._asked_to_stop < patience
                else None
            )
            raise (
                self.examiner.find_oom_kill()
                or sigkill
                or Fault("hang", f"the server does not stop within {patience:.0f} s")
            )
        if self.ended.status != 0:
            raise Fault(
                "died",
                f"the server failed during its shutdown ({self.ended.words}): "
                f"{self.examiner.find_last_log_line()}",
            )
        if self.prepared.server.connect == "tls":
            check_encryption(self.record.select(ClientConnectionRow))
        if self.prepared.settings:
            # Some allocators print their settings only at the end.
            self._check_settings(
                reported_tunables.parse_reported_settings(
                    self.prepared.allocator, self.log.read_text(errors="replace")
                )
            )

    def note_fault(self, fault: Fault) -> None:
        """Make this fault the trial's outcome, and stop the server."""
        self._stop_quietly()
        self.record.trial = replace(
            self.record.trial,
            outcome="fault",
            fault=fault.kind,
            fault_text=str(fault),
            exit_status=self.ended.status if self.ended else None,
            log_tail=private_server.ending(self.log),
            rss_idle=None,
        )

    def _stop_quietly(self) -> None:
        if self._running and self.ended is None:
            self._running.admin.close()
            self.ended = self._running.child.poll() or self._running.child.stop(signal.SIGTERM, 20)

    def finish(self) -> TrialRecord:
        """Return the record, complete but for what the design adds. Raises Failure if the host's
        THP settings are no longer those that the trial needs.
        """
        check_host_thp(self.host_thp)
        self.record.trial.ended = time.time()
        return self.record

    def clean_up(self) -> None:
        """Stop what still runs and remove the scratch data. Safe to call at any point."""
        if self._sampler:
            self._sampler.close()
        if self._counters:
            self._counters.close()
        try:
            if self._running:
                self._running.admin.close()
            if self._child and self.ended is None:
                self._child.stop(signal.SIGKILL, 0)
        finally:
            # The guardian removes these too, unless it was killed.
            if self._cgroup:
                self._cgroup.remove()
            for path in (self.run_directory, self.private_directory):
                remove_directory(path)
            self.context.copies.give_back(self._copy, unchanged=self._ended_in_order())

    def _ended_in_order(self) -> bool:
        """Whether the server was shut down in order, at the end of a trial without a fault."""
        return (
            self.ended is not None and self.ended.status == 0 and self.record.trial.outcome == "ok"
        )


def keep_host_step(lives: Iterable[ServerLife], step: int, samples: Sequence[HostSample]) -> None:
    """Keep what the host did between the first and the last of these samples in the record of each
    server that shares it.
    """
    start, end = samples[0].clock, samples[-1].clock
    for life in lives:
        life.record.rows.append(trial_rows.make_host_step_row(step, samples, start, end))


def _write_variables(path: Path, pairs: dict[str, Any]) -> None:
    """Write a line ``name<TAB>value`` for each pair. Values of secrets are hidden: the user's data
    directory may bring settings with it (mysqld-auto.cnf).
    """
    write_own(
        path, "".join(f"{k}\t{secret_names.hide_value(k, str(v))}\n" for k, v in pairs.items())
    )

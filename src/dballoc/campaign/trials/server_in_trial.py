"""The life of one server in a trial: its data, start, proof, marks, end. What goes wrong is a
Fault.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from dballoc import readers
from dballoc.allocators import proof_of_use, reported_tunables, tunables
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation.prepare import Prepared, Setting
from dballoc.campaign.trials import trial_rows
from dballoc.campaign.trials.fault import Examiner, Fault, killed
from dballoc.campaign.trials.with_heap_probe import under_probe
from dballoc.errors import Failure
from dballoc.experiment import secret_names
from dballoc.experiment.cpu_list import format_cpus
from dballoc.explain.attribution.ledger import ledger
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Child, Custody, Exit
from dballoc.host.resources import cgroup
from dballoc.host.settings import thp
from dballoc.host.unprivileged.ownership import remove
from dballoc.load import client
from dballoc.measure import memory_marks
from dballoc.measure.memory_marks import Mark
from dballoc.measure.process_sampler import ProcessSampler
from dballoc.process_memory import malloc_bindings as running_process
from dballoc.process_memory import process_snapshot
from dballoc.servers.private import command_line as server_options
from dballoc.servers.private import private_server
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord


class Interrupted(Exception):
    """The user has asked to stop; the trial under way is lost."""


@dataclass(frozen=True)
class Context:
    """What all trials of a campaign share."""

    setting: Setting
    custody: Custody
    observer: Observer
    stopping: Callable[[], bool]


class Life:
    """One start of one variant. :meth:`begin`, :meth:`ready`, … :meth:`end`; :meth:`clean_up` at
    any point.

    ``directory`` takes the raw files; ``record`` gathers what the store will have of it;
    ``probed``: with the heap probe.
    """

    def __init__(
        self, context: Context, variant: str, template: Template, directory: Path,
        cpus: frozenset[int] | None = None, thp_disable: bool = False, probed: bool = False,
    ) -> None:  # fmt: skip
        self.context = context
        self.prepared: Prepared = context.setting.variants[variant]
        self.directory = directory
        self.t0 = time.monotonic()
        self.log = directory / "server.log"
        self.record = TrialRecord(trial=_blank())
        self.ended: Exit | None = None
        self.mark: Mark | None = None
        self._cpus = cpus
        self._thp_disable = thp_disable
        self._template = template
        self._limit = context.setting.experiment.limits.memory
        self._time = context.setting.experiment.time
        self._cgroup: cgroup.MemoryCgroup | None = None
        self._child: Child | None = None
        self._running: private_server.Running | None = None
        self._sampler: ProcessSampler | None = None
        self._asked_to_stop = 0.0
        # What the host must have while this runs; None where it does not matter.
        self.host_thp: str | None = None
        self.scratch = directories.make_scratch(context.custody.scratch)
        self.run_directory = directories.make_run_directory(context.custody.scratch)
        self.private_directory = directories.make_run_directory(context.custody.scratch)
        if probed:
            self.prepared = under_probe(self.prepared, self.run_directory)
        self.examiner = self._examiner()

    @property
    def running(self) -> private_server.Running:
        """The server, once :meth:`ready` has returned."""
        assert self._running
        return self._running

    @property
    def sampler(self) -> ProcessSampler:
        """Of the server process, once :meth:`ready` has returned."""
        assert self._sampler
        return self._sampler

    # -- start ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Copy the data and start the server, no more. Fault if the data cannot be copied."""
        user = self.context.setting.user
        self.scratch.chmod(0o711)
        user.share(self.run_directory)
        user.show(self.private_directory)
        data = self.scratch / "data"
        try:
            self._template.copy(self.context.custody, data, self.directory / "copy.log", user)
        except OSError as error:
            raise Fault("disk", f"the data cannot be copied to {data}: {error}") from None
        if self._limit is not None:
            self._cgroup = cgroup.create(self.context.custody, self._limit)
            self.examiner = self._examiner()
        port = private_server.free_port() if self.prepared.server.connect == "tcp" else None
        self.address = server_options.Address(self.run_directory / "mysqld.sock", port)
        self.password = self._template.password
        self._launch = private_server.Launch(
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

    def ready(self) -> None:
        """Wait until it answers, prove its malloc, take the first mark. Fault for each of these."""
        assert self._child
        database = self.context.setting.experiment.data.database
        try:
            self._running = private_server.answering(
                self._child, self._launch, self._time.start, database
            )
        except private_server.StartFailed as error:
            self.ended = error.exit
            raise self.examiner.failed_start(str(error), error.exit) from None
        self.record.trial["seconds_to_start"] = self._running.seconds_to_start
        self._sampler = ProcessSampler(self._running.pid)
        self._prove()
        self.check_host()
        self.take_mark(0)
        assert self.mark
        self.record.trial["rss_start"] = self.mark.rss

    def _examiner(self) -> Examiner:
        complaints = self.prepared.allocator.entry.get("complaints", [])
        return Examiner(
            log=self.log,
            scratch=self.scratch,
            complaints=complaints,
            cgroup=self._cgroup,
            memory_limit=self._limit,
        )

    def _prove(self) -> None:
        running = self.running
        maps = readers.text_of_process(f"/proc/{running.pid}/maps", readers.MAPS)
        (self.directory / "maps.txt").write_text(maps)
        variables = running.admin.variables()
        _write_pairs(self.directory / "variables.tsv", variables)
        word = variables.get("version_malloc_library")
        expected = self.prepared.allocator.entry.get("word")
        try:
            live: dict[str, str] | None = running_process.bindings(running.pid)
        except running_process.Unreadable:
            # a host that forbids it (ptrace_scope); the loader's word at --version has been checked
            live = None
        self.record.trial["proof"] = json.dumps(
            proof_of_use.summary(self.prepared.bindings, live, word)
        )
        self.record.trial["thp"] = thp.achieved(running.pid)
        self.record.trial["cpus"] = format_cpus(os.sched_getaffinity(running.pid))
        try:
            if live:
                executable = os.path.realpath(self.prepared.build.executable)
                bindings = proof_of_use.Bindings(live, "", executable)
                proof_of_use.check_bindings(
                    bindings, self.prepared.allocator.providers, [], self.prepared.wrappers
                )
            proof_of_use.check_running(maps, word, expected, self.prepared.allocator.providers)
        except proof_of_use.NotProved as error:
            raise Fault("proof", str(error)) from None
        if said := self.examiner.complaint():
            raise Fault("proof", said)
        if self.prepared.settings:
            self._check_settings(reported_tunables.of_running(self.prepared.allocator, running.pid))
        if self.prepared.variant.thp in ("always", "madvise") and thp.allowed(running.pid) is False:
            raise Fault("proof", "the server has switched THP off for itself, past our shim")

    def _check_settings(self, shown: dict[str, str]) -> None:
        """Fault if the allocator's own word shows a setting otherwise than it was given."""
        if said := tunables.not_taken(self.prepared.allocator, self.prepared.settings, shown):
            raise Fault("proof", said)

    # -- while it runs --------------------------------------------------------------------------

    def take_mark(self, step: int) -> None:
        """The exact look at its memory, kept in the record."""
        self.mark = memory_marks.take(self.running.pid)
        self.record.marks.append(trial_rows.mark_row(step, self.mark, self.t0))

    def keep_ledger(self) -> None:
        """Where its memory is, read from outside: a look of milliseconds to a second at a server at
        rest.
        """
        try:
            self.record.ledger += trial_rows.ledger_rows(
                ledger(process_snapshot.look(self.running.pid))
            )
        except Failure:
            pass  # a host that forbids it (ptrace_scope): the report says that there is none

    def write_status(self, name: str, when: str) -> None:
        """Keep SHOW GLOBAL STATUS as a raw file. Fault if the server does not answer; ``when``
        names the moment.
        """
        try:
            status = self.running.admin.status()
        except pymysql.Error as error:
            raise self.refused(error, when, "SHOW GLOBAL STATUS") from None
        _write_pairs(self.directory / f"status-{name}.tsv", status)

    def refused(self, error: pymysql.Error, when: str, what: str) -> Fault:
        """Why our own statement ``what`` was not answered: the server's death, or what it said."""
        if self.running.child.wait(2.0):
            return self.death(when)
        return Fault("client", f"{when}: {what}: {error.args[-1]}")

    def check_host(self) -> None:
        """Failure if the host's THP mode was switched meanwhile: a lock binds dballoc alone."""
        if self.host_thp is not None and (now := thp.mode()) != self.host_thp:
            raise Failure(
                f"{thp.ENABLED}: somebody else has switched it from {self.host_thp} to {now}, and "
                "the "
                "trial under way is lost; run the same command to resume, once it is left alone"
            )

    def check_alive(self, when: str) -> None:
        """Interrupted if the user wants to stop; Fault if the server has ended."""
        if self.context.stopping():
            raise Interrupted
        if self.running.child.poll():
            raise self.death(when)

    def death(self, when: str) -> Fault:
        """Why the server, which has ended or is about to, did so."""
        self.ended = self.running.child.wait(5)
        return self.examiner.death(f"at {when}", self.ended)

    def client_places(self) -> client.Places:
        """Where its clients find its address and our account, and may make files of their own."""
        user = self.context.setting.user
        connection = client.connection_file(
            self.private_directory, self.address, self.password, user
        )
        return client.Places(connection, self.run_directory)

    # -- end ------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Begin an orderly shutdown, without waiting for it."""
        self._asked_to_stop = time.monotonic()
        self.running.admin.close()
        self.running.child.send(signal.SIGTERM)

    def end(self) -> None:
        """An orderly shutdown. Fault if it hangs, or the server ends badly."""
        if not self._asked_to_stop:
            self.ask_to_stop()
        patience = self._time.stop
        self.ended = self.running.child.wait(patience) or self.running.child.stop(signal.SIGKILL, 0)
        self.record.trial |= {
            "exit_status": self.ended.status,
            "server_user": self.ended.user,
            "server_system": self.ended.system,
        }
        if self.ended.status == -signal.SIGKILL:
            foreign = (
                killed(self.ended) if time.monotonic() - self._asked_to_stop < patience else None
            )
            raise (
                self.examiner.oom()
                or foreign
                or Fault("hang", f"the server does not stop within {patience:.0f} s")
            )
        if self.ended.status != 0:
            raise Fault(
                "died",
                f"the server ended badly at its shutdown ({self.ended.words}): "
                f"{self.examiner.last_word()}",
            )
        if self.prepared.settings:
            # What it prints, some allocators print as late as this.
            self._check_settings(
                reported_tunables.in_text(
                    self.prepared.allocator, self.log.read_text(errors="replace")
                )
            )

    def note_fault(self, fault: Fault) -> None:
        """The trial's outcome is this fault; the server is stopped."""
        self._stop_quietly()
        self.record.trial |= {
            "outcome": "fault",
            "fault": fault.kind,
            "fault_text": str(fault),
            "exit_status": self.ended.status if self.ended else None,
            "log_tail": private_server.ending(self.log),
            "rss_idle": None,
        }

    def _stop_quietly(self) -> None:
        if self._running and self.ended is None:
            self._running.admin.close()
            self.ended = self._running.child.poll() or self._running.child.stop(signal.SIGTERM, 20)

    def finish(self) -> TrialRecord:
        """The record, complete but for what the design adds. Failure if the host's THP mode is not
        the one that it says.
        """
        self.check_host()
        row = self.record.trial
        row["ended"] = time.time()
        row["samples"] = len(self.record.samples)
        return self.record

    def clean_up(self) -> None:
        """Stop what still runs and remove the scratch data. Safe to call at any point."""
        if self._sampler:
            self._sampler.close()
        try:
            if self._running:
                self._running.admin.close()
            if self._child and self.ended is None:
                self._child.stop(signal.SIGKILL, 0)
        finally:
            # Also where the guardian was killed, which else removes these.
            if self._cgroup:
                try:
                    self._cgroup.remove()
                except OSError:
                    pass  # the guardian tries again
            for path in (self.scratch, self.run_directory, self.private_directory):
                remove(path)


def switch_thp(context: Context, wanted: str | None) -> str | None:
    """Switch the host's THP mode for what starts next, to its own for None; the mode that it is in
    then.
    """
    if wanted is None:
        context.custody.restore()
    elif thp.mode() != wanted:
        context.custody.set(thp.SETTING, wanted)
    return wanted or context.setting.thp


def _write_pairs(path: Path, pairs: dict[str, Any]) -> None:
    """A data directory of the user's may bring settings with it (mysqld-auto.cnf): of secrets the
    name alone is kept.
    """
    path.write_text(
        "".join(f"{k}\t{secret_names.hide(k, str(v))}\n" for k, v in pairs.items()),
        encoding="utf-8",
    )


def _blank() -> dict[str, Any]:
    """A row of table ``trial`` before anything has happened."""
    later = (
        "fault",
        "fault_text",
        "exit_status",
        "log_tail",
        "proof",
        "thp",
        "cpus",
        "seconds_to_start",
        "rss_start",
        "rss_peak",
        "rss_idle",
        "server_user",
        "server_system",
    )
    return {
        **dict.fromkeys(later),
        "started": time.time(),
        "seconds_planned": 0.0,
        "outcome": "ok",
        "sampler_cpu": 0.0,
        "samples": 0,
    }

"""All checks, in the order in which they are shown."""

import contextlib
import os
import time
import tomllib
from pathlib import Path

import psutil

from dballoc import catalogue
from dballoc.campaign.preparation import prepare
from dballoc.doctor import cpus_memory_disk, kernel, leftovers, software
from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.doctor.installation import VerbPackages, check_installation
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Noise
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody, GuardianEnded, Lease
from dballoc.host.process import read_rights
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import OwnRights
from dballoc.host.settings import machine_lock
from dballoc.host.settings.machine_lock import LockPlace
from dballoc.instruments import disturbed_block, host_sampler

_SETTINGS_NAME = "host settings"
_SECONDS = 1.0


def check_host_settings(machine: LockPlace = machine_lock.THIS_MACHINE) -> Finding:
    """Restore the settings that a run left changed because it was killed together with its
    guardian. The doctor changes nothing else.
    """
    try:
        os.close(machine_lock.open_directory(machine.directory, make=False))
        restored = machine_lock.put_back_leftovers(machine)
    except FileNotFoundError:
        return Finding(_SETTINGS_NAME, "ok", "no run has left one changed")
    except OSError:
        text = "only root can see whether a killed run has left settings changed"
        return Finding(_SETTINGS_NAME, "note", text, "run doctor as root")
    except UsageError as error:
        return finding_from_error(_SETTINGS_NAME, "warn", error)
    if restored:
        text = ", ".join(
            f"{was.path} put back from {was.after} to {was.before}" for was in restored
        )
        return Finding(_SETTINGS_NAME, "note", f"{text}: a killed run had left it changed")
    if changing := machine_lock.changed_by_others(machine):
        text = " and ".join(
            f"{holder.words} has changed {changed}" for holder, changed in changing if changed
        )
        return Finding(
            _SETTINGS_NAME,
            "ok",
            f"{text or 'a running campaign may change them'}; it restores them at its end",
        )
    return Finding(_SETTINGS_NAME, "ok", "no run has left one changed")


def check_noise() -> list[Finding]:
    """Compare steal, and the CPU use of other processes, with the limits of a block."""
    # psutil reports the use since its last call, so this first call starts the second.
    processes = list(psutil.process_iter())
    for process in processes:
        _measure_cpu(process)
    began = host_sampler.take_host_sample()
    time.sleep(_SECONDS)
    noise = disturbed_block.compute_block_noise(
        began, host_sampler.take_host_sample(), load_cpu=0.0, probes=(1.0, 1.0)
    )
    busiest = max(
        ((_measure_cpu(p), p) for p in processes if p.pid), key=lambda pair: pair[0], default=None
    )
    limits = Noise()
    findings = [Finding("steal", "ok", f"{noise.steal:.1%} of the CPU time in the last second")]
    if noise.steal > limits.steal:
        text = (
            f"the hypervisor took {noise.steal:.1%} of the CPU time in the last second; a block "
            f"tolerates {limits.steal:.0%}"
        )
        findings = [
            Finding("steal", "warn", text, "use a machine with dedicated CPUs, or try again later")
        ]
    text = f"other processes use {noise.others:.1%} of the CPUs"
    if noise.others <= limits.others:
        return [*findings, Finding("load of others", "ok", text)]
    text += f"; a block tolerates {limits.others:.0%}"
    if busiest and busiest[0] > 1:
        # psutil completes a name of 15 characters by the command line, which may never answer.
        named = Process.at(busiest[1].pid).read_name()
        name = readers.shown(named) if named else "one that has ended"
        text += f" (most: {name}, process {busiest[1].pid}, {busiest[0]:.0f} % of one)"
    return [*findings, Finding("load of others", "warn", text, "stop them, or wait")]


def _measure_cpu(process: psutil.Process) -> float:
    """Return a process's CPU use since the last call for it, in per cent of one CPU; 0 if it has
    ended.
    """
    try:
        return float(process.cpu_percent(None))
    except psutil.Error:
        return 0.0


def _check_other_processes() -> Finding:
    """Check what verify, explain and profile may look into."""
    return judge_rights(read_rights.read_own_rights(), read_rights.read_hiding())


def judge_rights(rights: OwnRights, hiding: str) -> Finding:
    """Say what this user may look into. ``hiding``: how /proc hides others' processes. Pure."""
    name, scope = "other processes", f"kernel.yama.ptrace_scope is {rights.ptrace_scope}"
    owner = "" if rights.ptrace_scope else " as the server's own user,"
    remedy = f"run as root,{owner} or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
    if rights.ptrace_scope >= 3:
        return Finding(name, "warn", f"none may be looked into: {scope} until the next boot")
    if hiding:
        text = f"/proc hides those of other users (hidepid={hiding}): their servers are not found"
        return Finding(name, "note", text, remedy)
    if rights.in_user_namespace:
        text = "those outside this user namespace cannot be looked into"
        return Finding(name, "note", text, "run on the host, or in the server's own container")
    if not rights.may_read_others:
        text = f"none may be looked into: {scope}"
        if not rights.ptrace_scope:
            text = "only this user's own may be looked into"
        return Finding(name, "note", text, remedy)
    if rights.label:
        text = f"may be looked into unless {rights.label}, which confines dballoc, forbids it"
        return Finding(name, "note", text, "run dballoc unconfined if it does")
    return Finding(name, "ok", "may be looked into")


_NAME = "guardian"
_REMEDY = (
    "let processes here start others, become their subreaper, and kill them: see the seccomp and "
    "AppArmor profiles, or run dballoc outside of this sandbox"
)
# Longer than this check: it is the lease's other end that goes. Seconds.
_LEASE = 30.0
_PATIENCE = 5.0


def check_guardian() -> Finding:
    """Have a guardian hold a process and a directory, close its lease, and look whether both go."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(reader), os.fdopen(writer, "wb") as driver:
        try:
            with Custody(lease=Lease(reader, _LEASE)) as custody:
                place = directories.make_run_directory(custody.scratch)
                child = custody.spawn(["sleep", "60"], dict(os.environ), Path(os.devnull))
                driver.close()
                began = time.monotonic()
                with contextlib.suppress(GuardianEnded):
                    child.wait(_PATIENCE)
                seconds = time.monotonic() - began
        except (Failure, OSError) as error:
            return Finding(_NAME, "missing", f"cannot hold a process: {error}", _REMEDY)
    if seconds >= _PATIENCE or Path(f"/proc/{child.pid}").exists() or place.exists():
        text = f"what it holds does not end within {_PATIENCE:.0f} s of a loss of contact"
        return Finding(_NAME, "missing", text, _REMEDY)
    text = f"ends what it holds within {max(seconds, 0.1):.1f} s of a loss of contact"
    return Finding(_NAME, "ok", text)


def examine(installation: VerbPackages, *, is_client_host: bool = False) -> list[Finding]:
    """Run all checks that concern what this installation can do. Those for comparisons take some
    seconds, one of which measures the load of the machine. ``is_client_host``: only those of what a
    host needs that loads servers elsewhere.
    """
    if is_client_host:
        checks = _check_for_loads
    elif installation.can_bench:
        checks = _check_for_comparisons
    else:
        checks = _check_for_production_host
    return [
        kernel.check_architecture(os.uname().machine, os.sysconf("SC_PAGE_SIZE")),
        check_installation(installation),
        *checks(),
    ]


def _check_for_loads() -> list[Finding]:
    """Check what a client host of bench --ray runs loads with: it has no server, no allocator, and
    no data.
    """
    return [
        software.check_python(),
        software.check_sysbench(),
        software.check_server_user(),
        check_guardian(),
        *cpus_memory_disk.check_cpus(is_client_host=True),
        cpus_memory_disk.check_memory(is_client_host=True),
        cpus_memory_disk.check_temporary_files(),
        cpus_memory_disk.check_socket_directory(),
        *check_noise(),
        *leftovers.check_leftovers(),
    ]


def _check_for_production_host() -> list[Finding]:
    """Check what a running server is looked at with; of the allocators, those that are here."""
    return [
        software.check_python(),
        *(finding for finding in software.check_allocators() if finding.state != "note"),
        software.check_native_parts(),
        software.check_perf(),
        _check_other_processes(),
        check_host_settings(),
        kernel.check_huge_pages(),
        kernel.check_peak_reset(),
        *leftovers.check_leftovers(),
    ]


def _check_for_comparisons() -> list[Finding]:
    """Check what private servers are started, loaded and measured with."""
    return [
        software.check_python(),
        software.check_sysbench(),
        *software.check_servers(),
        *software.check_allocators(),
        software.check_server_user(),
        software.check_native_parts(),
        software.check_perf(),
        _check_other_processes(),
        check_guardian(),
        *cpus_memory_disk.check_cpus(),
        cpus_memory_disk.check_memory(),
        cpus_memory_disk.check_swap(),
        *cpus_memory_disk.check_cache(),
        cpus_memory_disk.check_temporary_files(),
        cpus_memory_disk.check_socket_directory(),
        check_host_settings(),
        kernel.check_huge_pages(),
        kernel.check_memory_cgroup(),
        kernel.check_peak_reset(),
        kernel.check_counters(),
        kernel.check_open_files(),
        kernel.check_address_space(),
        *check_noise(),
        *leftovers.check_leftovers(),
        check_demo(),
    ]


def check_demo() -> Finding:
    """Check all that ``dballoc bench`` would check of the demo before it starts a server."""
    try:
        prepare.prepare_campaign(
            experiment_file.build_experiment(
                tomllib.loads(catalogue.experiments()["demo"]), "experiment demo"
            )
        )
    except (UsageError, Failure) as error:
        return finding_from_error("the demo", "warn", error)
    return Finding("the demo", "ok", "dballoc bench can start")


def can_bench(findings: list[Finding]) -> bool:
    """Whether nothing that bench needs is missing."""
    return all(finding.state != "missing" for finding in findings)

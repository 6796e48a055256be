"""All checks, in the order in which they are shown."""

import os
import tomllib

from dballoc import catalogue
from dballoc.campaign.preparation import prepare
from dballoc.doctor import (
    cpus_memory_disk,
    guardian_lease,
    host_settings,
    kernel,
    leftovers,
    machine_noise,
    other_processes,
    software,
)
from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.doctor.installation import Installation, check_installation
from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file


def examine(installation: Installation, *, is_client_host: bool = False) -> list[Finding]:
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
        guardian_lease.check_guardian(),
        *cpus_memory_disk.check_cpus(is_client_host=True),
        cpus_memory_disk.check_memory(is_client_host=True),
        cpus_memory_disk.check_temporary_files(),
        cpus_memory_disk.check_socket_directory(),
        *machine_noise.check_noise(),
        *leftovers.check_leftovers(),
    ]


def _check_for_production_host() -> list[Finding]:
    """Check what a running server is looked at with; of the allocators, those that are here."""
    return [
        software.check_python(),
        *(finding for finding in software.check_allocators() if finding.state != "note"),
        software.check_native_parts(),
        software.check_perf(),
        other_processes.check_other_processes(),
        host_settings.check_host_settings(),
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
        other_processes.check_other_processes(),
        guardian_lease.check_guardian(),
        *cpus_memory_disk.check_cpus(),
        cpus_memory_disk.check_memory(),
        cpus_memory_disk.check_swap(),
        *cpus_memory_disk.check_cache(),
        cpus_memory_disk.check_temporary_files(),
        cpus_memory_disk.check_socket_directory(),
        host_settings.check_host_settings(),
        kernel.check_huge_pages(),
        kernel.check_memory_cgroup(),
        kernel.check_peak_reset(),
        kernel.check_counters(),
        kernel.check_open_files(),
        kernel.check_address_space(),
        *machine_noise.check_noise(),
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

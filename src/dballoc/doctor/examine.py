"""All checks, in the order in which they are shown."""

import os
import tomllib

from dballoc import catalogue
from dballoc.campaign.preparation import prepare
from dballoc.doctor import (
    cpus_memory_disk,
    host_settings,
    kernel,
    leftovers,
    machine_noise,
    software,
)
from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file


def examine() -> list[Finding]:
    """Run all checks; takes some seconds, one of which measures the load of the machine."""
    return [
        kernel.check_architecture(os.uname().machine, os.sysconf("SC_PAGE_SIZE")),
        software.check_python(),
        software.check_sysbench(),
        *software.check_servers(),
        *software.check_allocators(),
        software.check_server_user(),
        software.check_native_parts(),
        software.check_perf(),
        *cpus_memory_disk.check_cpus(),
        *cpus_memory_disk.check_memory(),
        *cpus_memory_disk.check_cache(),
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

"""The whole examination, in the order in which it is shown."""

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
    """Everything that the doctor looks at; takes some seconds, one of which it spends looking at
    the load.
    """
    return [
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
        kernel.check_open_files(),
        kernel.check_address_space(),
        *machine_noise.check_noise(),
        *leftovers.check_leftovers(),
        check_demo(),
    ]


def check_demo() -> Finding:
    """Would ``dballoc bench`` start? Everything that it checks before its first start is
    checked.
    """
    try:
        prepare.settle(
            experiment_file.build(tomllib.loads(catalogue.experiments()["demo"]), "experiment demo")
        )
    except (UsageError, Failure) as error:
        return finding_from_error("the demo", "warn", error)
    return Finding("the demo", "ok", "dballoc bench can start")


def can_bench(findings: list[Finding]) -> bool:
    """Nothing essential is missing."""
    return all(finding.state != "missing" for finding in findings)

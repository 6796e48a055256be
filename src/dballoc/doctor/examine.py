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
from dballoc.doctor.finding import Finding, from_error
from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file


def examine() -> list[Finding]:
    """Everything that the doctor looks at; takes some seconds, one of which it spends looking at
    the load.
    """
    return [
        software.python(),
        software.client(),
        *software.servers(),
        *software.allocators(),
        software.unprivileged(),
        software.native(),
        software.perf(),
        *cpus_memory_disk.processors(),
        *cpus_memory_disk.memory(),
        *cpus_memory_disk.cache(),
        cpus_memory_disk.sockets(),
        host_settings.put_back(),
        kernel.huge_pages(),
        kernel.memory_cgroup(),
        kernel.peaks(),
        kernel.descriptors(),
        kernel.address_space(),
        *machine_noise.look(),
        *leftovers.look(),
        demo(),
    ]


def demo() -> Finding:
    """Would ``dballoc bench`` start? Everything that it checks before its first start is
    checked.
    """
    try:
        prepare.settle(
            experiment_file.build(tomllib.loads(catalogue.experiments()["demo"]), "experiment demo")
        )
    except (UsageError, Failure) as error:
        return from_error("the demo", "warn", error)
    return Finding("the demo", "ok", "dballoc bench can start")


def can_bench(findings: list[Finding]) -> bool:
    """Nothing essential is missing."""
    return all(finding.state != "missing" for finding in findings)

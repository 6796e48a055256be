"""Check what the kernel permits: THP, memory cgroups, peaks, limits."""

import math
import os
import resource
from pathlib import Path

from dballoc.doctor.finding import Finding, finding_from_error
from dballoc.experiment.durations_and_sizes import format_size
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.process.handle import Process
from dballoc.host.resources import cgroup
from dballoc.host.resources.open_file_limit import read_hard_limit, read_most_files
from dballoc.host.settings import thp
from dballoc.instruments.process_sampler import ProcessGone, ProcessSampler
from dballoc.instruments.server_counters import find_countable
from dballoc.servers.private.command_line import open_files

# What a large experiment opens: for the warning.
_CLIENTS, _TABLES = 256, 8


def check_architecture(machine: str, page_size: int) -> Finding:
    """Check whether dballoc knows a ``machine``, as uname(2) names it. ``page_size``: bytes."""
    name = "architecture"
    text = f"{machine}, pages of {format_size(page_size)}"
    if machine == "x86_64":
        return Finding(name, "ok", text)
    if machine == "aarch64":
        return Finding(name, "note", f"{text}: dballoc was tried there in emulation alone")
    return Finding(name, "warn", f"{text}: dballoc knows the processes of x86-64 and aarch64 alone")


def check_huge_pages() -> Finding:
    """Check the host's THP settings, and whether variants may have others."""
    name = "transparent huge pages"
    host = thp.read_host()
    if thp.SETTING not in host:
        return Finding(name, "note", "this kernel has none: variants with thp cannot run")
    mode, _, others = thp.describe_host(host).partition(", ")
    if not os.access(thp.ENABLED, os.W_OK):
        text = f"{mode}, and this user cannot switch it: variants with another thp cannot run"
        return Finding(name, "note", f"{text}; {others}", "run as root")
    return Finding(name, "ok", f"{mode}, can be switched; {others}")


def check_memory_cgroup() -> Finding:
    """Check whether a memory cgroup can be made, by making and removing one."""
    name = "memory cgroup"
    try:
        with Custody() as custody:
            made = cgroup.create_memory_cgroup(custody, 1 << 30)
            made.remove()
    except UsageError as error:
        text, _, remedy = str(error).removeprefix("limits.memory: ").partition("; ")
        return Finding(name, "note", f"{text}: limits.memory cannot be used", remedy)
    except (Failure, OSError) as error:
        return finding_from_error(name, "note", error)
    return Finding(name, "ok", f"version {made.version}, can be made in {made.path.parent}")


def check_peak_reset() -> Finding:
    """Check whether the high-water mark of RSS can be reset, for a peak per level, by resetting our
    own.
    """
    name = "peak per level"
    sampler = ProcessSampler(Process.own())
    try:
        sampler.sample()
        permitted = sampler.reset_peak()
    except ProcessGone:
        return Finding(
            name,
            "missing",
            "/proc does not show what dballoc reads of a process",
            "mount /proc without restrictions",
        )
    finally:
        sampler.close()
    if not permitted:
        text = "/proc/PID/clear_refs is refused: a level's peak includes those before it"
        return Finding(name, "warn", text, 'levels = "fresh" starts the server anew for each level')
    return Finding(name, "ok", "can be reset")


def check_counters() -> Finding:
    """Check whether the host counts instructions and cycles, which verdicts do not need."""
    name = "instructions and cycles"
    countable = find_countable(Experiment.model_fields["counters"].default)
    refusal, _, remedy = countable.refusal.partition("; ")
    if not countable.events:
        return Finding(name, "note", f"not counted: {refusal}", remedy)
    if refusal:
        return Finding(name, "note", f"counted in user mode, {refusal}", remedy)
    return Finding(name, "ok", "counted in user mode and in the kernel")


def check_open_files() -> Finding:
    """Check the hard limit of open files, which only a root that may raise limits can raise."""
    name = "open files"
    hard, most = read_hard_limit(), read_most_files()
    least, wanted = open_files(1, 1), open_files(_CLIENTS, _TABLES)
    if most >= wanted:
        return Finding(name, "ok", "no limit" if math.isinf(hard) else f"{hard:,}")
    text = f"at most {hard:,}; {_CLIENTS} clients on {_TABLES} tables need {wanted:,}"
    remedy = f"raise it: ulimit -Hn {wanted}, or nofile in /etc/security/limits.conf"
    return Finding(name, "missing" if hard < least else "warn", text, remedy)


def check_address_space() -> Finding:
    """Check the limits of address space: several allocators reserve hundreds of gigabytes that they
    never touch.
    """
    name = "address space"
    if (limit := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        text = f"limited to {limit / 2**30:.1f} GiB: allocators that reserve more fail"
        return Finding(name, "warn", text, "ulimit -v unlimited")
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2":
        text = "vm.overcommit_memory is 2: allocators that reserve much fail"
        return Finding(name, "warn", text, "sysctl vm.overcommit_memory=0")
    return Finding(name, "ok", "not limited")

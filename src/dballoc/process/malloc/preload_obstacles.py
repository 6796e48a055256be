"""Whether the mallocs that a program is given run on this host, before it starts: page size, CPU,
and who registers rseq. What an allocator requires is in the catalogue and in its own file.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dballoc import catalogue
from dballoc.allocators import host_requirements
from dballoc.allocators.host_requirements import Platform
from dballoc.host.exit_status import describe_exit_status
from dballoc.host.process import open_in_process_root
from dballoc.host.unprivileged.sandbox import ELF_PARSER, SandboxError
from dballoc.process.malloc import identify_malloc

_START_SECONDS = 30.0


def find_library_obstacle(
    entry: Mapping[str, Any], libraries: Iterable[Path], host: Platform
) -> str | None:
    """Return why an allocator, or one of the libraries that are preloaded, does not run on this
    host, and what to do; None if nothing speaks against it.
    """
    needs = read_host_needs(libraries)
    alignments = {library: need["alignment"] for library, need in needs.items()}
    levels = {library: need["isa"] for library, need in needs.items()}
    return host_requirements.find_page_obstacle(
        entry, alignments, host.page_size
    ) or host_requirements.find_cpu_obstacle(levels, host.cpu_flags)


def find_preload_obstacle(environment: Mapping[str, str], host: Platform) -> str | None:
    """Return why a program with this environment would not run, or crash, under the mallocs that
    its LD_PRELOAD names; None if nothing speaks against it.
    """
    libraries = [Path(word) for word in environment.get("LD_PRELOAD", "").replace(":", " ").split()]
    for library in libraries:
        name = identify_malloc.find_catalogue_name(library.name)
        entry = catalogue.allocators()[name] if name else {}
        files = [library] if library.is_absolute() else []
        if obstacle := find_library_obstacle(entry, files, host):
            return obstacle
        if obstacle := find_rseq_obstacle(entry, "", environment, host):
            return f"LD_PRELOAD={library}: {obstacle}"
    return None


def find_start_obstacle(environment: Mapping[str, str]) -> str | None:
    """Return why a program with this environment would end at its first allocations, by a small
    program that makes some; None if that one runs, or there is none here. So is seen what no file
    tells: a jemalloc that was built for smaller pages, or for another CPU.
    """
    small, preload = shutil.which("date"), environment.get("LD_PRELOAD")
    if not preload or small is None:
        return None
    failure = f"LD_PRELOAD={preload}: {small} does not run under it"
    try:
        trial = subprocess.run(
            [small], env=environment, capture_output=True, check=False, timeout=_START_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{failure}: {error}"
    if trial.returncode == 0:
        return None
    ending = describe_exit_status(trial.returncode)
    lines = trial.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"{failure}: {ending} ({lines[-1]})" if lines else f"{failure}: {ending}"


def find_rseq_obstacle(
    entry: Mapping[str, Any], version: str, environment: Mapping[str, str], host: Platform
) -> str | None:
    """Return why a malloc would crash on this kernel with the environment's value of
    glibc.pthread.rseq, and which one to set; None if it would not.
    """
    row = host_requirements.find_rseq_row(entry, version, host.kernel, host.machine)
    if row is None or not row["must"]:
        return None
    if not host_requirements.registers_rseq(host.glibc):
        return f"{row['why']}; {host_requirements.NEEDS_GLIBC}; or boot another kernel"
    # By itself glibc does register it.
    wanted = host_requirements.find_rseq_setting(environment) or "1"
    if wanted == row["value"]:
        return None
    return (
        f"{row['why']}; set GLIBC_TUNABLES={host_requirements.RSEQ}={row['value']}, or boot "
        "another kernel"
    )


def read_host_needs(libraries: Iterable[Path]) -> dict[Path, dict[str, int]]:
    """Read what each library's file needs of a host, as
    :func:`dballoc.host.elf.elf_parser.read_host_needs` returns it; a library that cannot be read is
    left out.
    """
    needs = {}
    for library in libraries:
        try:
            fd = open_in_process_root.open_file(Path("/"), os.path.realpath(library))
        except OSError:
            continue
        try:
            needs[library] = ELF_PARSER.call("read_host_needs", [fd])
        except SandboxError:
            continue
        finally:
            os.close(fd)
    return needs

"""Before the first start: check that each variant's malloc runs on this host, and set the C
library's options that it needs.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dballoc import catalogue
from dballoc.allocators import find_library as find_allocator
from dballoc.allocators import host_requirements, reported_tunables
from dballoc.allocators.find_library import Allocator
from dballoc.ground.errors import UsageError
from dballoc.process.malloc import identify_malloc, preload_obstacles


def check_libraries(where: str, allocator: Allocator, libraries: Iterable[Path]) -> None:
    """Raises UsageError that begins with ``where`` if the allocator, or one of the libraries that
    are preloaded for a variant, does not run with this kernel's page size, or on this CPU.
    """
    obstacle = preload_obstacles.find_library_obstacle(
        find_entry(allocator), libraries, host_requirements.read_host()
    )
    if obstacle:
        raise UsageError(f"{where}: {obstacle}")


def set_rseq(
    where: str, allocator: Allocator, command: list[str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return a server's environment with the value of glibc.pthread.rseq that its allocator needs
    on this kernel. Raises UsageError that begins with ``where`` if it would crash all the same.

    ``command``: starts the server, whose loader says whether its C library registers rseq.
    """
    host = host_requirements.read_host()
    row = host_requirements.find_rseq_row(
        find_entry(allocator), allocator.version, host.kernel, host.machine
    )
    if row is None:
        return dict(environment)
    listed = reported_tunables.list_reported_names(
        find_allocator.find_allocator("glibc"), command, environment
    )
    try:
        value = host_requirements.choose_rseq(
            row,
            wanted=host_requirements.find_rseq_setting(environment),
            glibc_registers=host_requirements.RSEQ in (listed or ()),
        )
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if value is None:
        return dict(environment)
    return host_requirements.add_rseq_setting(environment, value)


def find_entry(allocator: Allocator) -> dict[str, Any]:
    """Return the catalogue's row of an allocator; of one given by path, the row that its file's
    name leads to, if any.
    """
    by_file = [identify_malloc.find_catalogue_name(path.name) for path in allocator.libraries]
    for name in (allocator.name, *by_file):
        if name in catalogue.allocators():
            return catalogue.allocators()[name]
    return allocator.entry

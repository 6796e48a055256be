"""Which executable a variant runs, and which malloc it has then: decided before the first start."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dballoc.allocators import find_library as find_allocator
from dballoc.allocators import host_requirements
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.proof_of_use import NotProved
from dballoc.catalogue import allocators
from dballoc.experiment.model import BUILTIN, Server, Variant
from dballoc.fetch import closed_store, fetch_sources, name_and_version, private_store
from dballoc.ground.errors import UsageError
from dballoc.process.malloc import identify_malloc
from dballoc.servers import relink
from dballoc.servers.build import Build
from dballoc.servers.relink import Linked

_TOO_OLD = re.compile(r"version `GLIBC_([\d.]+)' not found \(required by ([^)]+)\)")


@dataclass(frozen=True)
class VariantMalloc:
    """A variant's executable and its malloc. ``build`` has the executable that is started;
    ``preloaded_before``: libraries to preload ahead of the allocator's own.
    """

    build: Build
    allocator: Allocator
    preloaded_before: tuple[Path, ...]


def choose_malloc(build: Build, server: Server, variant: Variant) -> VariantMalloc:
    """Choose the executable and the malloc of a variant. UsageError, without the variant's name, if
    one of them is missing, or if the variant is called after another malloc than it has.
    """
    preload = find_preloads(variant)
    reference = None if variant.allocator == BUILTIN else variant.allocator
    named: Allocator | None
    before: tuple[Path, ...] = ()
    if variant.allocator is None and preload:
        named = find_allocator.make_allocator_of_files(preload)
    else:
        named, before = (find_allocator.find_allocator(reference) if reference else None), preload
        for library in preload:
            find_allocator.check_library(library)
    linked = _find_linked_malloc(build)
    loader = _find_loader(named, server, reference, linked)
    # A malloc that the executable is linked against would stay beside the variant's, and serve some
    # of the calls.
    without = [linked.soname] if linked and not linked.glibc and named else []
    started = relink.relinked(build, loader, without)
    if named and named.name != "glibc":
        return VariantMalloc(started, named, before)
    builtin = _find_builtin(_find_linked_malloc(started), reference)
    if named is None and variant.name in allocators() and variant.name != builtin.name:
        raise UsageError(
            f"it is called after {variant.name}, but names no allocator, and {build.title} brings "
            f'{builtin.name} itself; add allocator = "{variant.name}", or give it another name'
        )
    return VariantMalloc(started, builtin, before)


def find_preloads(variant: Variant) -> tuple[Path, ...]:
    """Return the libraries that a variant names by path; in a kit their copies. Raises UsageError
    if a kit has none.
    """
    paths = tuple(Path(p).expanduser().absolute() for p in variant.preload)
    closed = closed_store.open_closed_store()
    return tuple(closed.find_file(path) for path in paths) if closed else paths


def find_wrappers(before: Iterable[Path]) -> tuple[str, ...]:
    """Return the libraries ahead of a malloc that may answer for it and pass calls on: all but
    mallocs of the catalogue.
    """
    return tuple(
        os.fspath(path.resolve())
        for path in before
        if identify_malloc.find_catalogue_name(path.name) is None
    )


@cache
def _find_linked_malloc(build: Build) -> Linked | None:
    """Return the library that an executable gets its malloc from without any preload."""
    try:
        return relink.linked(build)
    except NotProved as error:
        if too_old := _explain_old_glibc(error, build):
            raise GlibcTooOld(*too_old) from None
        raise UsageError(f"{build.executable}: {error}") from None


def _find_loader(
    named: Allocator | None, server: Server, reference: str | None, linked: Linked | None
) -> Path | None:
    """Return the loader of the C library that the server is to run on; None for its present one."""
    wanted = server.glibc
    if (
        named
        and named.name == "glibc"
        and reference
        and (version := name_and_version.split_reference(reference)[1])
    ):
        if wanted not in (None, version):
            raise UsageError(
                f"allocator {reference!r} and server.glibc {wanted!r} are two C libraries; give one"
            )
        wanted = version
    if wanted is None:
        return None
    if kept := private_store.find_fetched("glibc", wanted):
        return kept.loader
    if (
        linked
        and linked.glibc
        and name_and_version.is_version_of(wanted, relink.glibc_version(linked.library))
    ):
        return None
    raise fetch_sources.NotFetched(
        f"glibc {wanted}", name_and_version.join_reference("glibc", wanted)
    )


def _find_builtin(linked: Linked | None, reference: str | None) -> Allocator:
    """Return the malloc that an executable is linked against. One whose malloc is compiled in is
    refused later, by the proof of use.
    """
    if linked is None or linked.glibc:
        glibc = find_allocator.find_allocator("glibc")
        return (
            find_allocator.use_server_library(
                glibc, linked.library, relink.glibc_version(linked.library)
            )
            if linked
            else glibc
        )
    if reference is not None:
        raise UsageError(f"its malloc still comes from {linked.soname}")
    name = identify_malloc.find_catalogue_name(linked.soname) or linked.soname
    allocator = Allocator(name=name, libraries=(), version="")
    version = (
        find_allocator.read_version(allocator.entry, [linked.library])
        if "version" in allocator.entry
        else ""
    )
    return find_allocator.use_server_library(allocator, linked.library, version)


class GlibcTooOld(UsageError):
    """A library needs a newer C library than the server runs on: version ``needs``."""

    def __init__(self, text: str, needs: str) -> None:
        super().__init__(text)
        self.needs = needs


def make_proof_error(where: str, error: NotProved, build: Build, wanted: str) -> UsageError:
    """Return the error for a malloc that the server does not use: what is wrong, and what to do."""
    if (too_old := _explain_old_glibc(error, build)) is None:
        page_size = host_requirements.read_host().page_size
        meaning = host_requirements.explain_abort(str(error), page_size)
        text = f"{where}: {build.title} does not use {wanted}: {error}"
        return UsageError(f"{text}; {meaning}" if meaning else text)
    return GlibcTooOld(f"{where}: {too_old[0]}", too_old[1])


def _explain_old_glibc(error: NotProved, build: Build) -> tuple[str, str] | None:
    """Return the message about a C library that is too old, and the version that is needed; None if
    the error has another cause.
    """
    if (complaint := _TOO_OLD.search(str(error))) is None:
        return None
    needs, library = complaint[1], Path(complaint[2])
    text = (
        f"{library.name} needs glibc {needs} or newer, and {build.title} would run on an older one"
    )
    if newer := find_newer_glibc(needs):
        text += (
            f"; dballoc fetch glibc@{newer}, and let the server run on it: "
            f'server = {{ glibc = "{newer}" }}'
        )
    return text, needs


def find_newer_glibc(needs: str) -> str | None:
    """Return the preferred version of the C library that can be fetched, from ``needs`` on; None if
    there is none.
    """
    parse = name_and_version.parse_version_numbers
    versions = [source.version for source in fetch_sources.list_sources("glibc")]
    return next((v for v in versions if parse(v) >= parse(needs)), None)

"""Which executable a variant runs, and which malloc it then has: settled before the first start."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dballoc.allocators import find_library as find_allocator
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.proof_of_use import NotProved
from dballoc.errors import UsageError
from dballoc.experiment.model import BUILTIN, Server, Variant
from dballoc.fetch import fetch_sources, name_and_version, private_store
from dballoc.process_memory import identify_malloc
from dballoc.servers import relink
from dballoc.servers.build import Build
from dballoc.servers.relink import Linked

_TOO_OLD = re.compile(r"version `GLIBC_([\d.]+)' not found \(required by ([^)]+)\)")


@dataclass(frozen=True)
class Settled:
    """``build`` with the executable that is started; ``before``: libraries to preload ahead of the
    allocator's own.
    """

    build: Build
    allocator: Allocator
    before: tuple[Path, ...]


def settle(build: Build, server: Server, variant: Variant) -> Settled:
    """The executable and the malloc of a variant. UsageError, without the variant's name, if they
    cannot be had.
    """
    preload = tuple(Path(p).expanduser().absolute() for p in variant.preload)
    word = None if variant.allocator == BUILTIN else variant.allocator
    named: Allocator | None
    before: tuple[Path, ...] = ()
    if variant.allocator is None and preload:
        named = find_allocator.by_path(preload)
    else:
        named, before = (find_allocator.find(word) if word else None), preload
        for library in preload:
            find_allocator.check_library(library)
    brings = _linked(build)
    loader = _loader(named, server, word, brings)
    # A malloc that the executable is linked against would still be there beside the one asked for,
    # and answer for some.
    without = [brings.soname] if brings and not brings.glibc and named else []
    runs = relink.relinked(build, loader, without)
    if named and named.name != "glibc":
        return Settled(runs, named, before)
    return Settled(runs, _own(_linked(runs), word), before)


def wrappers(before: Iterable[Path]) -> tuple[str, ...]:
    """Of the libraries ahead of a malloc, those that may answer for it and pass calls on: all but
    mallocs of the catalogue.
    """
    return tuple(
        os.fspath(path.resolve())
        for path in before
        if identify_malloc.catalogue_name(path.name) is None
    )


@cache
def _linked(build: Build) -> Linked | None:
    try:
        return relink.linked(build)
    except NotProved as error:
        old = _too_old(error, build)
        raise UsageError(old[0] if old else f"{build.executable}: {error}") from None


def _loader(
    named: Allocator | None, server: Server, word: str | None, brings: Linked | None
) -> Path | None:
    """Of the C library that the server is to run on; None for the one that it has."""
    asked = server.glibc
    if named and named.name == "glibc" and word and (version := name_and_version.split(word)[1]):
        if asked not in (None, version):
            raise UsageError(
                f"allocator {word!r} and server.glibc {asked!r} are two C libraries; give one"
            )
        asked = version
    if asked is None:
        return None
    if kept := private_store.find("glibc", asked):
        return kept.loader
    if (
        brings
        and brings.glibc
        and name_and_version.fits(asked, relink.glibc_version(brings.library))
    ):
        return None
    wanted = name_and_version.join("glibc", asked)
    raise fetch_sources.NotHere(f"glibc {asked}", wanted)


def _own(brings: Linked | None, word: str | None) -> Allocator:
    """The malloc that an executable brings itself. One that carries its own is for the proof to
    refuse.
    """
    if brings is None or brings.glibc:
        glibc = find_allocator.find("glibc")
        return (
            find_allocator.own(glibc, brings.library, relink.glibc_version(brings.library))
            if brings
            else glibc
        )
    if word is not None:
        raise UsageError(f"its malloc comes from {brings.soname} still")
    name = identify_malloc.catalogue_name(brings.soname) or brings.soname
    found = Allocator(name=name, libraries=(), version="")
    version = (
        find_allocator.read_version(found.entry, [brings.library])
        if "version" in found.entry
        else ""
    )
    return find_allocator.own(found, brings.library, version)


class GlibcTooOld(UsageError):
    """Something needs a newer C library than the server runs on: ``needs``."""

    def __init__(self, text: str, needs: str) -> None:
        super().__init__(text)
        self.needs = needs


def refused(where: str, error: NotProved, build: Build, wanted: str) -> UsageError:
    """The user's error where the loader did not do as it was told: what is wrong, and what
    to do.
    """
    if (old := _too_old(error, build)) is None:
        return UsageError(f"{where}: {build.title} does not use {wanted}: {error}")
    return GlibcTooOld(f"{where}: {old[0]}", old[1])


def _too_old(error: NotProved, build: Build) -> tuple[str, str] | None:
    """What to say of a C library that is too old, and the version that is needed; None if it is not
    for that.
    """
    if (found := _TOO_OLD.search(str(error))) is None:
        return None
    needs, who = found[1], Path(found[2])
    text = f"{who.name} needs glibc {needs} or newer, and {build.title} would run on an older one"
    newer = [
        s.version
        for s in fetch_sources.of("glibc")
        if name_and_version.order(s.version) >= name_and_version.order(needs)
    ]
    if newer:
        text += (
            f"; dballoc fetch glibc@{newer[0]}, and let the server run on it: "
            f'server = {{ glibc = "{newer[0]}" }}'
        )
    return text, needs

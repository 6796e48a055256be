"""Proof of use: which library provides malloc to a server."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged

# The functions that one library must provide together: otherwise one frees what another allocated.
SYMBOLS = (
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "free_sized",
    "free_aligned_sized",
    "_Znwm",
    "_Znam",
)
_NEW = ("_Znwm", "_Znam")
# C23's; glibc has them since 2.43, and does nothing in them but call free by its name.
_SIZED_FREE = ("free_sized", "free_aligned_sized")
_C_LIBRARY = "libc.so.6"

_BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'")
_COMPLAINTS = ("cannot be preloaded", "cannot allocate memory in static TLS block")


@dataclass(frozen=True)
class Bindings:
    """Which file provides each symbol to the server's executable; for operator new, to libstdc++
    where the executable does not import it itself.

    ``printed``: what the server and the loader printed besides; ``executable``: the server's, where
    it is known.
    """

    provider: dict[str, str]
    printed: str
    executable: str | None = None


class NotProved(Exception):
    """The server does not use the requested allocator; the text says what shows that."""


def read_bindings(argv: list[str], env: Mapping[str, str], timeout: float = 60) -> Bindings:
    """Run ``argv --version`` as the server user, and read from the loader's list (``ld.so(8)``,
    LD_DEBUG) the bindings, which are all made at once.

    Raises NotProved if it does not run in this environment.
    """
    try:
        process = run_unprivileged(
            [*argv, "--version"], {**env, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}, timeout
        )
    except Unanswered as error:
        raise NotProved(f"the server does not answer --version with it: {error}") from None
    printed = "\n".join(
        line for line in process.stderr.splitlines() if not re.match(r"\s*\d+:\t", line)
    )
    if process.status != 0:
        # The first line is the reason; those behind it follow from it.
        lines = printed.strip().splitlines()
        reason = lines[0] if lines else f"exit status {process.status}"
        raise NotProved(f"the server does not run under it: {reason}")
    return Bindings(parse_bindings(process.stderr, argv[0]), printed, os.path.realpath(argv[0]))


def parse_bindings(text: str, executable: str) -> dict[str, str]:
    """Return the provider of each symbol to the executable; of a symbol that it does not import,
    the provider to libstdc++.
    """
    by_executable: dict[str, str] = {}
    by_library: dict[str, str] = {}
    for user, provider, symbol in _BINDING.findall(text):
        if symbol not in SYMBOLS:
            continue
        if os.path.realpath(user) == os.path.realpath(executable):
            by_executable[symbol] = provider
        elif "libstdc++" in user:
            by_library[symbol] = provider
    return by_library | by_executable


def check_bindings(
    bindings: Bindings,
    providers: tuple[str, ...],
    complaints: list[str],
    wrappers: tuple[str, ...] = (),
) -> None:
    """Check that all symbols lead to one of ``providers`` (resolved paths, or sonames for a
    built-in malloc), or to one of ``wrappers`` (resolved paths): libraries preloaded before it that
    pass calls on. Raises NotProved if not.
    """
    if refusal := find_complaint(bindings.printed, complaints):
        raise NotProved(refusal)
    if "malloc" not in bindings.provider:
        raise NotProved(
            "the server does not import malloc; it carries or exports its own, which no preload "
            "can replace"
        )
    for symbol, provider in bindings.provider.items():
        resolved = os.path.realpath(provider)
        if (
            resolved in (*providers, *wrappers)
            or Path(provider).name in providers
            or Path(resolved).name in providers
        ):
            continue
        if calls_the_family(symbol, provider, bindings.executable):
            continue
        raise NotProved(f"{_demangle(symbol)} comes from {provider}")


def calls_the_family(symbol: str, provider: str, executable: str | None) -> bool:
    """Whether a function of another file than the malloc's only calls malloc or free, whose
    providers are checked by themselves: operator new of libstdc++, or a server's own (MySQL 5.5);
    the C library's free_sized and free_aligned_sized.
    """
    if symbol in _NEW:
        return "libstdc++" in provider or os.path.realpath(provider) == executable
    return symbol in _SIZED_FREE and Path(provider).name == _C_LIBRARY


def find_complaint(text: str, complaints: list[str]) -> str | None:
    """Return the first line in which the loader or the allocator refuses a preload or a setting;
    None if there is none.
    """
    for line in text.splitlines():
        if any(c in line for c in (*_COMPLAINTS, *complaints)):
            return line.strip()
    return None


def check_running(
    mapped: Collection[str],
    word: str | None,
    allocator_word: str | None,
    providers: tuple[str, ...],
) -> None:
    """Check that the allocator is among the files that a running server has ``mapped``, and in what
    the server itself reports (``word``, the value of ``@@version_malloc_library``; None where it
    has no such variable). Raises NotProved if not.
    """
    names = {Path(m).name for m in mapped}
    for provider in providers:
        if provider not in mapped and provider not in names:
            raise NotProved(f"{provider} is not in the running server's maps")
    if word is not None and allocator_word is not None and allocator_word not in word:
        raise NotProved(f"the server says version_malloc_library = {word!r}")


def summarize_proof(
    bindings: Bindings, running: dict[str, str] | None, word: str | None
) -> dict[str, Any]:
    """Return what the results directory keeps as the proof. ``running``: the live server's
    bindings, None if they could not be read.
    """
    return {"bindings": bindings.provider, "running": running, "version_malloc_library": word}


def _demangle(symbol: str) -> str:
    return {"_Znwm": "operator new", "_Znam": "operator new[]"}.get(symbol, symbol)

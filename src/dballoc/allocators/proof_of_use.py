"""Proof of use: which library the bindings of a server lead to."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc import readers
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged

# What a malloc must provide as a whole: a mixture frees with one what another gave.
SYMBOLS = (
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "_Znwm",
    "_Znam",
)
_NEW = ("_Znwm", "_Znam")

_BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'")
_COMPLAINTS = ("cannot be preloaded", "cannot allocate memory in static TLS block")


@dataclass(frozen=True)
class Bindings:
    """Who provides each symbol to the server's executable, and to libstdc++ where operator new is
    that one's.

    ``executable``: the server's, where it is known.
    """

    provider: dict[str, str]
    printed: str
    executable: str | None = None


class NotProved(Exception):
    """The server does not use the allocator asked for; the text says how that shows."""


def read_bindings(argv: list[str], env: Mapping[str, str], timeout: float = 60) -> Bindings:
    """Run ``argv --version`` as the server user, with all bindings made at once and listed by the
    loader (``ld.so(8)``, LD_DEBUG).

    NotProved if it does not run under this environment.
    """
    try:
        done = run_unprivileged(
            [*argv, "--version"], {**env, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}, timeout
        )
    except Unanswered as error:
        raise NotProved(f"the server does not say its version under it: {error}") from None
    printed = "\n".join(
        line for line in done.stderr.splitlines() if not re.match(r"\s*\d+:\t", line)
    )
    if done.status != 0:
        # The first line is the reason; what follows it is its consequence.
        said = printed.strip().splitlines()
        raise NotProved(
            f"the server does not run under it: {said[0] if said else f'exit status {done.status}'}"
        )
    return Bindings(parse_bindings(done.stderr, argv[0]), printed, os.path.realpath(argv[0]))


def parse_bindings(text: str, executable: str) -> dict[str, str]:
    """Provider per symbol, as the executable has it; one that it does not import itself, as
    libstdc++ has it.
    """
    own: dict[str, str] = {}
    by_library: dict[str, str] = {}
    for user, provider, symbol in _BINDING.findall(text):
        if symbol not in SYMBOLS:
            continue
        if os.path.realpath(user) == os.path.realpath(executable):
            own[symbol] = provider
        elif "libstdc++" in user:
            by_library[symbol] = provider
    return by_library | own


def check_bindings(
    bindings: Bindings,
    providers: tuple[str, ...],
    complaints: list[str],
    wrappers: tuple[str, ...] = (),
) -> None:
    """NotProved unless all symbols lead to one of ``providers`` (resolved paths, or sonames for a
    built-in malloc), or to one of ``wrappers`` (resolved paths), libraries before it that pass
    calls on.
    """
    if said := complaint(bindings.printed, complaints):
        raise NotProved(said)
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
        # libstdc++'s operator new calls malloc, whose provider is checked here too; so does a
        # server's own (MySQL 5.5).
        if symbol in _NEW and ("libstdc++" in provider or resolved == bindings.executable):
            continue
        raise NotProved(f"{_spell(symbol)} comes from {provider}")


def complaint(text: str, complaints: list[str]) -> str | None:
    """The first line in which the loader or the allocator says that it did not take what it was
    given.
    """
    for line in text.splitlines():
        if any(c in line for c in (*_COMPLAINTS, *complaints)):
            return line.strip()
    return None


def check_running(
    maps: str, word: str | None, allocator_word: str | None, providers: tuple[str, ...]
) -> None:
    """NotProved unless a running server's maps and its own word (``@@version_malloc_library``)
    agree.

    ``word`` is None where the server has no such variable.
    """
    mapped = {
        line.split(maxsplit=5)[5] for line in readers.rows(maps) if len(line.split(maxsplit=5)) == 6
    }
    names = {Path(m).name for m in mapped}
    for provider in providers:
        if provider not in mapped and provider not in names:
            raise NotProved(f"{provider} is not in the running server's maps")
    if word is not None and allocator_word is not None and allocator_word not in word:
        raise NotProved(f"the server says version_malloc_library = {word!r}")


def summary(bindings: Bindings, running: dict[str, str] | None, word: str | None) -> dict[str, Any]:
    """What the results directory keeps as the proof. ``running``: the live server's bindings, None
    if unreadable.
    """
    return {"bindings": bindings.provider, "running": running, "version_malloc_library": word}


def _spell(symbol: str) -> str:
    return {"_Znwm": "operator new", "_Znam": "operator new[]"}.get(symbol, symbol)

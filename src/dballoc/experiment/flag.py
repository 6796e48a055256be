"""The flag of a model's field: how a command line sets it. It hangs on the field, in ``Annotated``,
so that name, type and help text stand in one place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Flag:
    """``name``: as it is written on a command line, ``--on/--off`` for a switch that has both;
    ``metavar``: of its value, None for a switch or a choice; ``help``: its text in ``--help``.

    ``written``: the type of the written value, and the function that makes the field's value of it;
    None where both follow from the field's type.
    """

    name: str
    metavar: str | None
    help: str
    written: tuple[Any, Callable[[Any], Any]] | None = None


Engine = Literal["innodb", "rocksdb", "aria", "myisam"]
# Here, because dballoc list has them too, and begins without the model.
SERVER_FLAG = Flag("--server", "NAME[@VERSION]", "Server; see dballoc list servers.")
BASEDIR_FLAG = Flag("--basedir", "DIR", "Where the server was unpacked or installed.", (Path, str))
ENGINE_FLAG = Flag("--engine", "NAME", "Storage engine: innodb, rocksdb, aria, myisam.")

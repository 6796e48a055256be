"""Run a program with a preload of ours: the environment that this takes, and why some programs
cannot be run so.
"""

import os
import pwd
import re
import shutil
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.host import portable
from dballoc.host.directories import SOCKET_PATH_LIMIT
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process import privileged_start
from dballoc.host.process.privileged_start import Starter
from dballoc.host.unprivileged.sandbox import SandboxError
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, PreloadKind

# The longest name of a socket in the directory: Linux's largest PID.
_LONGEST_SOCKET_NAME = "/4194304.sock"


def find_library(kind: PreloadKind) -> Path:
    """Return the preload's library. Raises UsageError if the native parts are not built, or would
    not stay as long as a program.
    """
    if portable.is_temporary():
        raise UsageError(
            f"the {kind.noun} must stay as long as the program runs, and what this file unpacks "
            f"does not; {portable.TO_UNPACK}"
        )
    path = Path(str(files("dballoc") / "_native" / kind.library))
    if not path.exists():
        raise UsageError(f"the {kind.noun} is not built; run make setup")
    if re.search(r"[: ]", os.fspath(path)):
        raise UsageError(
            f"{path}: LD_PRELOAD takes no path with a colon or a space; install dballoc elsewhere"
        )
    return path


def prepare_launch(
    kind: PreloadKind,
    command: Sequence[str],
    out: Path,
    environ: Mapping[str, str],
    size: int,
    is_idle: bool,
) -> tuple[str, dict[str, str]]:
    """Return the file that a command runs, and its complete environment, with the preload's socket
    in ``out``. Raises UsageError if there is no such program, if no preload can replace its malloc,
    or if ``out`` is no directory for a socket.
    """
    kind.check_size(size)
    executable = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if executable is None:
        raise UsageError(f"{command[0]}: there is no such program")
    check_executable(Path(executable))
    directory = os.fspath(out.absolute())
    if len(os.fsencode(directory + _LONGEST_SOCKET_NAME)) > SOCKET_PATH_LIMIT:
        raise UsageError(
            f"--out {directory}: its path is too long for a socket in it; choose one of "
            f"{SOCKET_PATH_LIMIT - 13} bytes or less"
        )
    return executable, add_to_environment(environ, kind, directory, size, is_idle)


def add_to_environment(
    environ: Mapping[str, str], kind: PreloadKind, directory: str, size: int, is_idle: bool = False
) -> dict[str, str]:
    """Return the environment with the preload before all others, and its socket in ``directory``.
    Raises UsageError as :func:`find_library`.
    """
    library = find_library(kind)
    if kind is HEAP_PROBE:
        request = f"{0 if is_idle else size}:{directory}"
    else:
        request = f"{'idle' if is_idle else 'start'}:{size}:{directory}"
    preload = ":".join(filter(None, [os.fspath(library), environ.get("LD_PRELOAD", "")]))
    return {**environ, "LD_PRELOAD": preload, kind.variable: request}


def check_executable(path: Path) -> None:
    """Check that a preload can interpose a program's malloc; UsageError if not. A script passes, as
    it may start anything.
    """
    try:
        with open_foreign_file(path) as f:
            if f.read(4) != b"\x7fELF":
                return
            has_interpreter = ask_elf_parser("read_interpreter", f.fileno())
            exports_malloc = ask_elf_parser("find_export", f.fileno(), "malloc") is not None
    except PermissionError:
        return  # it may be executable all the same; the running process is checked again
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except SandboxError:
        raise UsageError(f"{path}: not a whole ELF file") from None
    if not has_interpreter:
        raise UsageError(
            f"{path}: a static executable, whose malloc LD_PRELOAD cannot replace; use a "
            "dynamically linked build"
        )
    if exports_malloc:
        raise UsageError(
            f"{path}: it exports a malloc of its own, which LD_PRELOAD cannot replace; use a "
            "build without one"
        )
    starter = Starter(os.getuid(), os.getgid())
    if privileged := privileged_start.read_executable_privilege(path, starter):
        raise UsageError(
            f"{path}: it starts privileged ({privileged.cause}), so the loader ignores LD_PRELOAD; "
            "run a copy of it (cp leaves that behind)"
        )


def make_directory(out: Path, command: Sequence[str]) -> None:
    """Make the directory for the preload's socket, for the server's user alone: if we are root, the
    one that ``--user`` in its command names. Raises UsageError if it cannot be made.
    """
    try:
        if out.exists():
            if not out.is_dir():
                raise UsageError(f"--out {out}: not a directory")
            return
        user = next(
            (
                word.removeprefix("--user=")
                for word in reversed(command)
                if word.startswith("--user=")
            ),
            None,
        )
        with OutputDirectory.open(out) as directory:
            os.fchmod(directory.fd, 0o700)
            if user is not None and os.geteuid() == 0:
                account = pwd.getpwnam(user)
                os.fchown(directory.fd, account.pw_uid, account.pw_gid)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    except KeyError:
        raise UsageError(f"--user={user}: there is no such user") from None

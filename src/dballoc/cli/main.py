"""The command ``dballoc``: how a verb is run, and how each kind of error ends."""

import gc
import io
import os
import signal
import sys
from collections.abc import Sequence

import typer

from dballoc.cli.interruptible_child import reads_files_of_others, run_interruptibly
from dballoc.cli.shared.one_thread_for_numpy import one_thread_for_numpy
from dballoc.cli.shared.safe_output import Console, safe
from dballoc.cli.verb_list import VERBS, application, make_listing
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.caller_umask import remember_and_restrict
from dballoc.host import portable

# Typer's own errors about words of the command line. It has no public name for their base class.
_WordError: type[Exception] = typer.BadParameter.__mro__[2]
# New objects until Python's garbage collector runs. Imports make some 100,000 live ones: at
# Python's own 700 or 2,000 the collector takes a tenth of the start.
_OBJECTS_PER_COLLECTION = 50_000


def start() -> None:
    """Run a verb as :func:`main` does, in a child if it reads files of others."""
    if not reads_files_of_others(sys.argv[1:]):
        main()
        return
    try:
        run_interruptibly(main)
    except UsageError as error:  # a limit in the environment that is no number
        _complain(str(error))
        sys.exit(error.exit_status)


def main() -> None:
    """Run a verb. Every error is one line on stderr, with exit status 2 for a mistake in usage, 1
    for a failure or an error of dballoc's own, 130 after Ctrl-C.
    """
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    remember_and_restrict()
    _print_anything()
    # If our parent ignores SIGCHLD, every child's exit status would read as 0.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    portable.restore_environment(os.environ)
    try:
        with one_thread_for_numpy():
            verb = _choose_application(sys.argv[1:])
        status = verb(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where what goes wrong with it is still one line
        sys.exit(status)
    except (UsageError, Failure) as error:
        _complain(str(error))
        sys.exit(error.exit_status)
    except _WordError as error:
        words: str = error.format_message()  # type: ignore[attr-defined]
        _complain(f"{words.rstrip('.')}; dballoc --help says more")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        _give_up_printing()
        sys.exit(1)
    except Exception as error:
        from dballoc.cli import unexpected_error  # here: its imports take milliseconds

        if os.environ.get(unexpected_error.VARIABLE):
            raise
        if isinstance(error, OSError):
            _give_up_printing()
        _complain(unexpected_error.words(error))
        sys.exit(1)


def _choose_application(words: Sequence[str]) -> typer.Typer:
    """Make what a command line needs: the verb that it calls, or the list of all, which also
    suggests verbs.
    """
    first = words[0] if words else ""
    return application((first,), words) if first in VERBS else make_listing()


def _print_anything() -> None:
    """Print names that are not UTF-8 (of files, of arguments) with escapes; otherwise printing one
    would end the verb.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _give_up_printing() -> None:
    """Discard output that could not be printed: Python would try again at its end, and print errors
    of its own.
    """
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass  # there is none, or it is none of the system's


def _complain(text: str) -> None:
    line = " ".join(text.split("\n"))
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"dballoc: {safe(line)}")

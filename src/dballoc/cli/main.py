"""The command ``dballoc``: how a verb is run, and how each kind of error ends."""

import sys

import typer
from rich.console import Console

from dballoc.cli.verbs import VERBS, application
from dballoc.errors import Failure, UsageError

# Typer's own errors about words of the command line. It has no public name for their base class.
_WordError: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run a verb. One line on stderr and exit status 2 (usage) or 1 (failure); 130 after Ctrl-C."""
    try:
        asked = [verb for verb in sys.argv[1:2] if verb in VERBS]
        sys.exit(application(asked or VERBS)(standalone_mode=False))
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
        sys.stderr.close()
        sys.exit(1)


def _complain(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"dballoc: {text}", markup=False)

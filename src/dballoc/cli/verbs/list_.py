"""``dballoc list``: what the catalogue names, and what of it is here."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.extras import require_extra
from dballoc.cli.list_parts.catalogue_part import Part
from dballoc.cli.shared.field_flags import make_option
from dballoc.cli.shared.one_thread_for_numpy import one_thread_for_numpy
from dballoc.cli.shared.safe_output import print_json
from dballoc.experiment.flag import BASEDIR_FLAG, ENGINE_FLAG, SERVER_FLAG, Engine
from dballoc.ground.errors import UsageError


def list_(
    part: Annotated[Part, typer.Argument(metavar="WHAT", help="Which part of the catalogue.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…", help="List only these; settings: those of these allocators."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Start each one that is here, and prove which malloc it uses."
        ),
    ] = False,
    post: Annotated[
        bool,
        typer.Option(
            "--post",
            help="With experiments: what the post that one repeats states of its set-up, and what "
            "the run does.",
        ),
    ] = False,
    server: Annotated[str | None, make_option(SERVER_FLAG)] = None,
    basedir: Annotated[Path | None, make_option(BASEDIR_FLAG)] = None,
    engine: Annotated[Engine | None, make_option(ENGINE_FLAG)] = None,
) -> None:
    """List what an experiment can name, what of it is on this machine, and what can be fetched.

    --prove, with allocators, starts --server (default: this machine's MariaDB) under each one that
    is here; with servers, it starts each one that is here, as it was built. A start that fails is
    in the list with its reason.
    """
    _check_flags(part, prove, post)
    from dballoc.cli.list_parts import inventory_rows, row_table  # here: --help needs none of it

    rows = inventory_rows.list_rows(part, names or [], post)
    if names and part != "settings":
        rows = inventory_rows.choose_rows(part, rows, names, post)
    if prove:
        with one_thread_for_numpy():
            from dballoc.cli.list_parts import prove_rows

        rows = prove_rows.prove_rows(part, rows, prove_rows.choose_server(server, basedir, engine))
    if as_json:
        print_json(rows, default=str)
    else:
        row_table.print_rows(row_table.spread_comparisons(rows) if post else rows)


def _check_flags(part: Part, prove: bool, post: bool) -> None:
    if prove and part not in ("allocators", "servers"):
        raise UsageError(f"--prove is for allocators and servers, not for {part}")
    if prove:
        require_extra("bench", "dballoc list --prove")
    if post and part != "experiments":
        raise UsageError(f"--post is for experiments, not for {part}")

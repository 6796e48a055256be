"""Start what ``dballoc list --prove`` lists, and prove which malloc each start uses."""

from collections.abc import Sequence
from pathlib import Path

from dballoc.campaign.preparation.allocator_matrix import prove_allocators
from dballoc.cli.list_parts.inventory_rows import Row
from dballoc.cli.shared.campaign_display import PlainDisplay
from dballoc.cli.shared.safe_output import Console
from dballoc.experiment.model import BUILTIN, Server
from dballoc.ground.errors import UsageError


def prove_rows(part: str, rows: Sequence[Row], server: Server) -> Sequence[Row]:
    """Return the rows of what is on this machine, each with its proof; ``server``: what allocators
    are started under. Each start takes a second or two, so notices show the progress. Raises
    UsageError if nothing is here.
    """
    installed = [row for row in rows if row["here"] is not None]
    if not installed:
        raise UsageError(f"--prove: none of these {part} is on this machine; {rows[0]['remedy']}")
    display = PlainDisplay(Console(stderr=True))
    if part == "allocators":
        proofs = list(prove_allocators(server, [row["name"] for row in installed], display))
    else:
        servers = [
            server.model_copy(update={"use": row["name"], "basedir": None}) for row in installed
        ]
        proofs = [proof for each in servers for proof in prove_allocators(each, [BUILTIN], display)]
    for row, proof in zip(installed, proofs, strict=True):
        row |= (
            {"version": proof.allocator_version or row["version"]} if part == "allocators" else {}
        )
        row |= {
            "proof": proof.words,
            "proved": proof.library is not None,
            "seconds": round(proof.seconds, 2),
        }
    return installed


def choose_server(use: str | None, basedir: Path | None, engine: str | None) -> Server:
    """Return the server that flags describe; a flag that is None has the experiment file's
    default.
    """
    server_table = {
        "use": use,
        "basedir": str(basedir.absolute()) if basedir else None,
        "engine": engine,
    }
    return Server.model_validate({k: v for k, v in server_table.items() if v is not None})

"""``dballoc bench``: run the comparison."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dballoc.campaign import prepare, run
from dballoc.cli import options
from dballoc.cli.display import display
from dballoc.experiment import file


def bench(
    experiment: Annotated[Path | None, typer.Argument(metavar="FILE", help="An experiment file (TOML).")] = None,
    allocators: Annotated[str | None, typer.Option(help="Allocators to compare, the first being the baseline.", metavar="A,B,…")] = None,
    threads: Annotated[str | None, typer.Option(help="Client threads, one level each.", metavar="N,N,…")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Blocks to run: each runs every variant once.")] = None,
    budget: Annotated[str | None, typer.Option(help="Time for the whole campaign, like 20m.", metavar="TIME")] = None,
    out: Annotated[Path | None, typer.Option(help="Results directory.", metavar="DIR")] = None,
) -> None:
    """Compare allocators under a real server; with no argument, the demo."""
    flags = {"allocators": options.words(allocators), "threads": options.numbers(threads, "--threads"), "blocks": blocks, "budget": budget}
    model = options.experiment(experiment, None, flags)
    setting = prepare.settle(model)
    with display() as watcher:
        ending = run.run(setting, out or Path("dballoc-results") / model.name, watcher)
    print(ending)

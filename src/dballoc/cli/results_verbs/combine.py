"""``dballoc combine``: the campaigns of several hosts as one question."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared import flags
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.document.terminal import print_document
from dballoc.ground.errors import UsageError

Directories = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...", help="Results directories, two or more; or one of bench --ray."
    ),
]
EachIsAHost = Annotated[
    bool,
    typer.Option(
        "--each-is-a-host",
        help="Take every directory for a host of its own, also where host name and machine are "
        "the same, as in copies of one virtual machine.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Also write the report there: HTML, Markdown, CSV, charts."),
]


def combine(
    directories: Directories,
    each_is_a_host: EachIsAHost = False,
    out: Out = None,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
) -> None:
    """Combine campaigns that were run on different hosts, or one that ran on several: verdicts over
    hosts, how much they differ, and in what.

    Every host counts once, however many blocks it has. A verdict takes four hosts. What is not the
    same question is refused.
    """
    # polars and scipy take a while to import, which no other verb should wait for.
    from dballoc.questions.compare.campaign_tables import load_unimported_campaign
    from dballoc.questions.compare.split_by_host import split_by_host
    from dballoc.questions.hosts.answer import gather_hosts_report
    from dballoc.questions.hosts.figures import judge_over_hosts
    from dballoc.questions.hosts.host_pool import pool_hosts
    from dballoc.questions.hosts.redact_hosts import redact_pool
    from dballoc.questions.write_report import write_document

    campaigns = [(each, load_unimported_campaign(each, series=False)) for each in directories]
    # One of several hosts without a block has no parts; it is refused like any other without one.
    parts = [
        (directory, part)
        for directory, campaign in campaigns
        for part in split_by_host(campaign) or [campaign]
    ]
    if len(parts) < 2:
        raise UsageError(
            "these are results of one host; give two results directories or more, or one of bench "
            "--ray with several hosts; one host's are dballoc report's"
        )
    pool = pool_hosts(
        [directory for directory, _ in parts],
        [part for _, part in parts],
        each_is_a_host=each_is_a_host,
    )
    if len(pool.hosts) < 2:
        raise UsageError(
            f"all results are of one host, {pool.hosts[0].name}; if these are several machines of "
            "that name, add --each-is-a-host"
        )
    if redact:
        pool = redact_pool(pool)
    document = gather_hosts_report(pool, judge_over_hosts(pool))
    page = write_document(document, out, redact) if out is not None else None
    if as_json:
        print_json(document.data)
    else:
        console = Console(highlight=False)
        print_document(console, document)
        if page is not None:
            console.print(f"\nReport: {page}", soft_wrap=True, markup=False)

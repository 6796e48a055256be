"""``dballoc deploy``: how to run one's own server with a variant."""

from pathlib import Path
from typing import Annotated

import typer

from dballoc.cli.shared.safe_output import say
from dballoc.deploy.deployment_text import FORMS, Form


def deploy(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results directory of dballoc bench.")
    ],
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="One of its variants.")],
    form: Annotated[
        Form | None, typer.Option(help="Print only this form; default: all three.")
    ] = None,
) -> None:
    """Print how to run your own server with a variant: for systemd, mysqld_safe and containers,
    with the traps of each.

    Nothing is changed.
    """
    from dballoc.analysis.campaign_tables import load_unimported_campaign
    from dballoc.deploy import deployment, deployment_text

    deployed = deployment.build_deployment(load_unimported_campaign(directory), variant, directory)
    missing = {path: not Path(path).exists() for path in deployed.libraries}
    say(
        deployment_text.render(
            deployed, (form,) if form else FORMS, missing, directory
        ).removesuffix("\n")
    )

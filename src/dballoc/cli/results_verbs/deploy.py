"""``dballoc deploy``: how to run one's own server with a variant."""

import os
import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from dballoc.allocators import host_requirements
from dballoc.cli.shared.safe_output import say
from dballoc.deploy.deployment_text import DEFAULT_FORMS, Form
from dballoc.ground.errors import UsageError
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process.privileged_start import Starter, read_executable_privilege
from dballoc.process.malloc import preload_obstacles
from dballoc.servers.families import describe_family

_SERVER_DIRECTORIES = ("/usr/sbin", "/usr/libexec", "/usr/local/mysql/bin")
# Any user but root.
_SERVICE_USER = Starter(65534, 65534)


def deploy(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results directory of dballoc bench or tune.")
    ],
    variant: Annotated[
        str | None,
        typer.Argument(
            metavar="[VARIANT]", help="One of its variants; of a tune, the winner by default."
        ),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(help="Print only this form; default: systemd, mysqld_safe and container."),
    ] = None,
) -> None:
    """Print how to run your own server with a variant: for systemd, mysqld_safe, containers and
    pods, with the traps of each.

    Nothing is changed.
    """
    from dballoc.deploy import deployment, deployment_text
    from dballoc.questions.compare.campaign_tables import load_unimported_campaign

    directory, variant = _find_campaign(directory, variant)
    deployed = deployment.build_deployment(load_unimported_campaign(directory), variant, directory)
    missing, obstacle = look_at_libraries(deployed.libraries, deployed.environment)
    forms = (form,) if form else DEFAULT_FORMS
    privileged = find_privileged_servers(deployed.family)
    text = deployment_text.render(deployed, forms, missing, directory, obstacle, privileged)
    say(text.removesuffix("\n"))


def look_at_libraries(
    libraries: tuple[str, ...], environment: dict[str, str]
) -> tuple[dict[str, bool], str | None]:
    """Return, by library, whether this machine lacks it; and why a program with this environment
    would not run. In a child: whoever made the results named them, and their file system may never
    answer. Raises Failure if it does not.
    """
    host = host_requirements.read_host()
    return run_abandonable(
        lambda: (
            {path: not Path(path).exists() for path in libraries},
            preload_obstacles.find_preload_obstacle(environment, host),
        ),
        f"the file system of {', '.join(libraries)}",
    )


def find_privileged_servers(family: str) -> list[str]:
    """Return a sentence on each of this machine's servers of a family that a service's user starts
    privileged.
    """
    search_path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SERVER_DIRECTORIES])
    paths = (shutil.which(name, path=search_path) for name in describe_family(family).binaries)
    starts = {
        path: read_executable_privilege(Path(path), _SERVICE_USER)
        for path in dict.fromkeys(filter(None, paths))
    }
    return [
        f"{path} starts privileged ({start.cause}), so its loader ignores LD_PRELOAD, and glibc "
        f"and jemalloc ignore their settings: {start.remedy}"
        for path, start in starts.items()
        if start
    ]


def _find_campaign(directory: Path, variant: str | None) -> tuple[Path, str]:
    """Return the campaign's results directory and the variant's name: of a tune, those of the
    confirmation that has it. Raises UsageError if there is none.
    """
    from dballoc.questions.tune.figures import load_tuned
    from dballoc.questions.tune.search_history import is_search

    report = f"dballoc report {shlex.quote(str(directory))}"
    if not is_search(directory):
        if variant is None:
            raise UsageError(f"deploy: which variant of {directory}? See {report}")
        return directory, variant
    tuned = load_tuned(directory)
    if variant is None:
        if tuned.winner is None or tuned.winner.winner is None:
            raise UsageError(
                f"{directory}: no finalist is confirmed, so there is nothing to deploy; name a "
                f"VARIANT if you want one nevertheless, or see {report}"
            )
        if not tuned.is_over:
            raise UsageError(
                f"{directory}: the confirmation is not over, and another finalist may be the one "
                f"to run; the same dballoc tune goes on with it, or name a VARIANT, like "
                f"{tuned.winner.winner}"
            )
        return tuned.winner.directory, tuned.winner.winner
    for confirmed in tuned.confirmed:
        if confirmed.campaign is not None and variant in confirmed.campaign.names:
            return confirmed.directory, variant
    names = [name for c in tuned.confirmed for name in (c.base, *c.finalists)]
    raise UsageError(
        f"{directory}: no finalist {variant!r}; there are {', '.join(names) or 'none'}"
    )

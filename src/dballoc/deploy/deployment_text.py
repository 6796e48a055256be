"""The text of ``dballoc deploy``: its parts are the files in templates/. Pure."""

import re
import shlex
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

import jinja2

from dballoc.deploy import quoting
from dballoc.deploy.deployment import SAFE_DIRECTORIES, STEERING, Recipe

Form = Literal["systemd", "mysqld_safe", "container"]
FORMS: tuple[Form, ...] = ("systemd", "mysqld_safe", "container")


def render(
    recipe: Recipe, forms: Collection[Form], missing: Mapping[str, bool], directory: Path
) -> str:
    """The whole text. ``missing``: by library, whether this machine lacks it."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # no HTML: shell, units and YAML are quoted by filters
    )
    environment.filters |= {"shell": shlex.quote, "yaml": quoting.yaml}
    environment.globals |= {"systemd": quoting.systemd, "dockerfile": quoting.dockerfile}
    names = [
        "head",
        *(form for form in FORMS if form in forms),
        *(["thp"] if recipe.thp else []),
        "end",
    ]
    values = {
        "r": recipe,
        "directory": directory,
        "lacking": [p for p, lacks in missing.items() if lacks],
        "forms": forms,
        "unit": "mariadb" if recipe.family == "mariadb" else "mysql",
        "directories": SAFE_DIRECTORIES,
        "steering": list(dict.fromkeys([*STEERING, *recipe.environment])),
        "install": _install(recipe.packages),
    }
    text = "\n".join(
        environment.get_template(name).render(values).strip("\n") + "\n" for name in names
    )
    # What a template leaves out leaves its blank lines behind.
    return re.sub(r"\n{3,}", "\n\n", text)


def _install(packages: tuple[str, ...]) -> str:
    """The packages are one under the names of different releases: the first that there is."""
    tries = [f"apt-get install -y --no-install-recommends {p}" for p in packages]
    return f"({' || '.join(tries)})" if len(tries) > 1 else "".join(tries)


def _template(name: str) -> str:
    return (files(__package__) / "templates" / f"{name}.txt.j2").read_text(encoding="utf-8")

"""Render the text of ``dballoc deploy`` from the files in templates/. Pure."""

import functools
import json
import re
import shlex
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

import jinja2

from dballoc.deploy.deployment import SAFE_DIRECTORIES, STEERING, Deployment
from dballoc.ground import readers
from dballoc.servers.families import describe_family

# What an option file takes as it stands: no blank, no quote, no comment, no escape.
_PLAIN = re.compile(r"[\w.,:/%@+=-]*")


def quote_systemd(name: str, value: str) -> str:
    """Return a line of a unit (systemd.exec(5)): ``%`` begins a specifier there; ``$`` means
    nothing.
    """
    return f'Environment="{name}={_escape(value).replace("%", "%%")}"'


def quote_dockerfile(name: str, value: str) -> str:
    """Return a line of a Dockerfile, where ``$`` begins a variable."""
    return f'ENV {name}="{_escape(value).replace("$", chr(92) + "$")}"'


def quote_yaml(value: str) -> str:
    """Return a double-quoted scalar, which a JSON string is."""
    return json.dumps(value, ensure_ascii=False)


def _quote_option(name: str, value: str) -> str:
    """Return a line of an option file (my.cnf), where ``#`` begins a comment and a backslash an
    escape, in quotes too.
    """
    if value == "" or value in ("''", '""'):
        return f"{name} = {value}" if value else name
    return f"{name} = {value if _PLAIN.fullmatch(value) else chr(34) + _escape(value) + chr(34)}"


def _quote_copy(source: str, target: str) -> str:
    """Return a COPY of a Dockerfile, in its JSON form where a path has a blank. ``$`` begins a
    variable there, and ``[`` a pattern in the source.
    """
    if _PLAIN.fullmatch(source + target):
        return f"COPY {source} {target}"
    words = [re.sub(r"([][*?\\])", r"\\\1", source), target]
    return "COPY " + json.dumps([word.replace("$", "\\$") for word in words], ensure_ascii=False)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Form = Literal[
    "systemd",
    "mysqld_safe",
    "container",
    "compose",
    "statefulset",
    "percona-operator",
    "mariadb-operator",
]
FORMS: tuple[Form, ...] = get_args(Form)
# What is printed unless a form is named, and those that run the server in a pod.
DEFAULT_FORMS: tuple[Form, ...] = ("systemd", "mysqld_safe", "container")
POD_FORMS: tuple[Form, ...] = ("statefulset", "percona-operator", "mariadb-operator")


def render(
    deployment: Deployment,
    forms: Collection[Form],
    missing: Mapping[str, bool],
    directory: Path,
    obstacle: str | None = None,
    privileged: Collection[str] = (),
) -> str:
    """Return the text. ``missing``: by library, whether this machine lacks it; ``obstacle``: why
    the variant would not run on this machine; ``privileged``: a sentence on each of this
    machine's servers that starts privileged.
    """
    environment = _make_environment()
    names = [
        "head",
        *(form for form in FORMS if form in forms),
        *(["thp"] if deployment.thp else []),
        "end",
    ]
    values = {
        "r": deployment,
        "directory": readers.one_line(str(directory)),
        "lacking": [p for p, lacks in missing.items() if lacks],
        "obstacle": obstacle,
        "privileged": privileged,
        "forms": forms,
        "in_pod": any(form in forms for form in POD_FORMS),
        "unit": describe_family(deployment.family).units[0],
        "directories": SAFE_DIRECTORIES,
        "steering": list(dict.fromkeys([*STEERING, *deployment.environment])),
        "install": _format_install_command(deployment.packages),
    }
    text = "\n".join(
        environment.get_template(name).render(values).strip("\n") + "\n" for name in names
    )
    # What a template leaves out leaves its blank lines behind.
    return re.sub(r"\n{3,}", "\n\n", text)


@functools.cache
def _make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # no HTML: shell, units and YAML are quoted by filters
    )
    environment.filters |= {"shell": shlex.quote, "yaml": quote_yaml}
    environment.globals |= {
        "systemd": quote_systemd,
        "dockerfile": quote_dockerfile,
        "copy": _quote_copy,
        "option": _quote_option,
    }
    return environment


def _format_install_command(packages: tuple[str, ...]) -> str:
    """Return the command that installs the first package that exists: they are one package under
    the names of different releases.
    """
    tries = [f"apt-get install -y --no-install-recommends {p}" for p in packages]
    return f"({' || '.join(tries)})" if len(tries) > 1 else "".join(tries)


def _read_template(name: str) -> str:
    return (files(__package__) / "templates" / f"{name}.txt.j2").read_text(encoding="utf-8")

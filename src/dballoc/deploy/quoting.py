"""Variables as each place wants them written. Pure."""

import json


def systemd(name: str, value: str) -> str:
    """A line of a unit (systemd.exec(5)): ``%`` begins a specifier there; ``$`` means nothing."""
    return f'Environment="{name}={_escaped(value).replace("%", "%%")}"'


def dockerfile(name: str, value: str) -> str:
    """A line of a Dockerfile, where ``$`` begins a variable."""
    return f'ENV {name}="{_escaped(value).replace("$", chr(92) + "$")}"'


def yaml(value: str) -> str:
    """A double-quoted scalar, which JSON's string is."""
    return json.dumps(value, ensure_ascii=False)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""Quote variables for each place that they are written to. Pure."""

import json


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


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

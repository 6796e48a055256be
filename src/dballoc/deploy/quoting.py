"""Quote values for each place that they are written to. What is in results may be anybody's, so a
value never ends its line, its quotes or its command there. Pure.
"""

import json
import re

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


def quote_option(name: str, value: str) -> str:
    """Return a line of an option file (my.cnf), where ``#`` begins a comment and a backslash an
    escape, in quotes too.
    """
    if value == "" or value in ("''", '""'):
        return f"{name} = {value}" if value else name
    return f"{name} = {value if _PLAIN.fullmatch(value) else chr(34) + _escape(value) + chr(34)}"


def quote_copy(source: str, target: str) -> str:
    """Return a COPY of a Dockerfile, in its JSON form where a path has a blank. ``$`` begins a
    variable there, and ``[`` a pattern in the source.
    """
    if _PLAIN.fullmatch(source + target):
        return f"COPY {source} {target}"
    words = [re.sub(r"([][*?\\])", r"\\\1", source), target]
    return "COPY " + json.dumps([word.replace("$", "\\$") for word in words], ensure_ascii=False)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

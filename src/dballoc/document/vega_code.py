"""Vega's code for a page. To bundle it takes more than a second, and it is the same text for one
version of vl-convert: it is kept in the user's cache.
"""

import contextlib
import functools
import hashlib
import os
import stat
from importlib.metadata import version
from pathlib import Path

import vl_convert

from dballoc.ground import user_directories
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import write_own

# The newest version that vl-convert has, such as 6.4.
VEGA_LITE = vl_convert.get_vegalite_versions()[-1]

# The bundle has 0.9 MB.
_MOST_BYTES = 8 << 20


@functools.cache
def bundle_vega() -> str:
    """Return Vega, Vega-Lite and vega-embed, in a function of their own: their short names, ``d3``
    among them, would hide those of the flame graphs' library. Only in their strings could there be
    an end of the element.
    """
    path = _choose_path()
    code = _read_kept(path) if path is not None else None
    if code is None:
        code = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]  # its stub lacks the default
        if path is not None:
            _keep(path, code)
    code = code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(() => {{{code}}})();"


def _choose_path() -> Path | None:
    """Return where the bundle of this version is kept; None if there is no cache."""
    try:
        home = user_directories.make_in_cache("webpage")
    except UsageError:
        return None
    return home / f"vega-lite-{VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"


def _read_kept(path: Path) -> str | None:
    """Return the bundle that was kept: a line with the SHA-256 of what follows it. None unless it
    is whole, and only this user can have written it: browsers will run it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if (
                not stat.S_ISREG(status.st_mode)
                or status.st_uid != os.geteuid()
                or status.st_mode & 0o022
                or status.st_size > _MOST_BYTES
            ):
                return None
            digest, _, content = file.read(_MOST_BYTES).partition(b"\n")
    except OSError:
        return None
    if digest != hashlib.sha256(content).hexdigest().encode():
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _keep(path: Path, code: str) -> None:
    """Keep the bundle; where that is not possible, it is made again the next time."""
    content = code.encode()
    with contextlib.suppress(OSError, UsageError):
        write_own(
            path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content, private=True
        )

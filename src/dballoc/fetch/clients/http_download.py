"""Download a file by HTTP, resuming where an earlier try stopped."""

import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from dballoc.errors import Failure
from dballoc.experiment.secret_names import hide_secrets
from dballoc.fetch.fetch_job import Progress

_CHUNK = 2**18
# Seconds without a byte.
_PATIENCE = 60


def download(url: str, target: Path, progress: Progress) -> None:
    """Download ``url`` to ``target``; after a break, what has come stays beside it for the next
    try. Failure in one line.
    """
    shown = hide_secrets(url)
    part = target.with_name(target.name + ".part")
    received = part.stat().st_size if part.exists() else 0
    if not url.lower().startswith(("https://", "http://")):
        raise Failure(f"{shown}: not a URL that begins with https:// or http://")
    headers = {"User-Agent": "dballoc", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # as checked
    if received:
        request.add_header("Range", f"bytes={received}-")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as reply:  # noqa: S310  # as checked
            if reply.status != 206:  # the server sends the whole file
                received = 0
            length = reply.headers.get("Content-Length")
            total = received + int(length) if length is not None else None
            with part.open("ab" if received else "wb") as f:
                while chunk := reply.read(_CHUNK):
                    f.write(chunk)
                    received += len(chunk)
                    progress(f"downloading {target.name}", received / total if total else None)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # our part is no beginning of the server's file
            part.unlink()
        raise Failure(f"{shown}: {error.code} {error.reason}") from None
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise Failure(
            f"{shown}: {reason}; the next try resumes at {received / 10**6:,.1f} MB"
        ) from None
    if total is not None and received < total:
        raise Failure(
            f"{shown}: the connection broke after {received / 10**6:,.1f} of {total / 10**6:,.1f} "
            "MB; the next try resumes from there"
        )
    part.rename(target)

"""The marker of a kit's store, which came from another machine."""

import json
from pathlib import Path

from dballoc.fetch import closed_store
from dballoc.ground.errors import UsageError

OF = ("dballoc.fetch.closed_store",)
PRIVILEGED = True

_PLACE = Path("/kit/store")


def seeds() -> list[bytes]:
    """One of each kind of part."""
    marker = {
        "format": closed_store.FORMAT,
        "servers": {"mariadb": "mariadb@10.11", "mysql in /opt/mysql": "mysql@8.4"},
        "mallocs": {
            "jemalloc": {"entry": "jemalloc@5.3.0", "version": "5.3.0"},
            "glibc@2.36": {"entry": None, "version": "2.36"},
        },
        "files": {"/opt/libmine.so": "files/1/libmine.so"},
        "sysbench": "sysbench@1.0.20/root/bin/sysbench",
        "loaders": {"sysbench@1.0.20/root/bin/sysbench": "libraries/ld.so"},
        "hashes": {"files/1/libmine.so": "0" * 64},
    }
    return [json.dumps(marker).encode(), b"{}"]


def fuzz(data: bytes) -> None:
    """What is read leads nowhere out of the store."""
    try:
        store = closed_store.parse_marker(_PLACE, data.decode(errors="replace"))
    except UsageError:
        return
    entries = [malloc.entry for malloc in store.mallocs.values() if malloc.entry is not None]
    paths = [*store.servers.values(), *store.files.values(), store.sysbench, *entries]
    paths += [*store.loaders, *store.loaders.values()]
    for path in paths:
        resolved = Path("/kit/store", path)
        assert ".." not in resolved.parts, path
        assert resolved.is_relative_to(_PLACE), path

"""The option files of a running server, read by root inside the server's root."""

import shutil
import tempfile
from pathlib import Path

from dballoc.servers.running import option_files

OF = (
    "dballoc.servers.running.option_files",
    "dballoc.servers.running.credentials",
    "dballoc.host.process.open_in_process_root",
)
PRIVILEGED = True

_BUILD = option_files.OptionFileRules(mariadb=True, version="10.11", directories=())


def seeds() -> list[bytes]:
    return [
        b"[mysqld]\na=1\nloose_b-c\nd = 'x\\n' # why\n!include /etc/my.cnf\n!includedir /etc\n[server]\nsql_mode=\n",
        b"[mariadbd-10.11]\nplugin-load-add=ha_rocksdb\n[client]\npassword=x\n",
    ]


def fuzz(data: bytes) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        (place / "etc").mkdir()
        (place / "etc/my.cnf").write_bytes(data)
        (place / "etc/x.cnf").write_bytes(data[: len(data) // 2])
        files = option_files._OptionFileReader(place).read(_BUILD, (), {"HOME": "/etc"})
    finally:
        shutil.rmtree(place)
    assert len(files.options) <= option_files._MOST_OPTIONS
    assert all("\n" not in name for name, _ in files.options)

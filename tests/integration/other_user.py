"""Watch what a user who has nothing to do with dballoc could read of some directories.

Run as root: ``other_user.py UID DIRECTORY…``. As root it lists all that is there, again and again,
so that a name that is hard to guess hides nothing; as the user it then tries to open each file and
list each directory. When its standard input closes, it writes what it could as JSON: a list of
paths, each with the mode that it had. A first line says that it has begun.
"""

import json
import os
import select
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE = 0.02
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def watch(uid: int, *places: Path) -> Iterator[dict[str, str]]:
    """Watch these directories while the block runs; then the dictionary has the mode of each path
    that could be read.
    """
    readable: dict[str, str] = {}
    with subprocess.Popen(
        [sys.executable, "-I", __file__, str(uid), *map(str, places)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout
        assert watcher.stdout.readline() == "begun\n"
        yield readable
        readable.update(json.loads(watcher.communicate(timeout=60)[0]))


def _list_paths(places: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """As root: all that is below the directories, themselves included."""
    todo = list(places)
    while todo:
        path = todo.pop()
        try:
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                todo += [os.path.join(path, name) for name in os.listdir(path)]
        except OSError:
            continue  # it has just gone
        yield path, status


def _may_read(path: str, status: os.stat_result) -> bool:
    try:
        if stat.S_ISDIR(status.st_mode):
            os.listdir(path)
        elif stat.S_ISREG(status.st_mode):
            os.close(os.open(path, _READ))
        else:
            return False
    except OSError:
        return False
    return True


def _watch(uid: int, places: list[str]) -> dict[str, str]:
    os.setgroups([])
    readable: dict[str, str] = {}
    while not select.select([sys.stdin], [], [], _PAUSE)[0]:
        entries = [entry for entry in _list_paths(places) if entry[0] not in readable]
        os.setegid(uid)
        os.seteuid(uid)
        for path, status in entries:
            if _may_read(path, status):
                readable[path] = oct(stat.S_IMODE(status.st_mode))
        os.seteuid(0)
        os.setegid(0)
    return readable


if __name__ == "__main__":
    print("begun", flush=True)
    print(json.dumps(_watch(int(sys.argv[1]), sys.argv[2:])))

"""Files that block for ever, delay, grow, shrink or lie about their size: a file system in user space
(FUSE), and what stands in for it where there is no /dev/fuse.

    with serve_files(directory) as served:
        served.put("my.cnf", HostileFile(content=b"[mysqld]\\n"))
        ...
        served.put("my.cnf", HostileFile(content=b"[mysqld]\\n", waits=("read",)))

The server is a process of its own: whoever waits for one of its files is in state D, which SIGKILL does
not end, until :func:`serve_files` ends and kills the server.
"""

import base64
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# Seconds until a file system is mounted, or has taken a file over.
_PATIENCE = 30
# libfuse starts 10 at most by itself, and each call that is never answered keeps one.
_MOST_THREADS = 1000


@dataclass(kw_only=True)
class HostileFile:
    """A file of the file system; without more than a content it is a harmless one."""

    content: bytes = b""
    # Calls that are never answered: "getattr" (stat, and each step of a walk to it), "open", "read".
    waits: tuple[str, ...] = ()
    # Seconds until each of these calls is answered.
    delay: float = 0.0
    # The size that stat tells, if it is not that of the content.
    size: int | None = None
    # Bytes that a call of stat or read adds to the size, less than 0: takes from it. What is beyond
    # the content is zeros.
    growth: int = 0
    # Read without the page cache, which keeps to the size that stat tells: the file goes on for ever.
    endless: bool = False
    mode: int = 0o644
    owner: int = field(default_factory=os.getuid)


@dataclass(kw_only=True)
class HostileFiles:
    """A mounted file system, or what stands in for it."""

    mount: Path
    # None: pipes stand in.
    server: subprocess.Popen[str] | None
    names: set[str] = field(default_factory=set)

    def put(self, name: str, file: HostileFile) -> Path:
        """Make a file, or replace one also for those that have it open or mapped; return its path.

        ``name`` may have directories in it. Where pipes stand in, a file whose calls wait is a pipe
        that nobody writes to, and any other one has its content and no more.
        """
        path = self.mount / name
        if self.server is None:
            _put_stand_in(path, file)
            return path
        if name not in self.names:
            # Once the kernel knows the name, one that waits does not make its whole directory wait.
            self._send(name, HostileFile())
            path.stat()
            self.names.add(name)
        self._send(name, file)
        return path

    def _send(self, name: str, file: HostileFile) -> None:
        values = asdict(file) | {"content": base64.b64encode(file.content).decode()}
        assert self.server
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps({name: values}) + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline()
        assert answer == f"{name}\n", answer


@contextmanager
def serve_files(directory: Path) -> Iterator[HostileFiles]:
    """Mount a file system on a fresh directory in ``directory``; at the end all that waits for it gets
    an error, and it is gone.
    """
    mount = directory / "hostile"
    mount.mkdir()
    if not can_mount():
        yield HostileFiles(mount=mount, server=None)
        return
    with subprocess.Popen(
        [sys.executable, "-I", __file__, str(mount)],
        env=os.environ | {"FUSE_LIBRARY_NAME": "fuse3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout
            assert server.stdout.readline() == "mounted\n"
            deadline = time.monotonic() + _PATIENCE
            while not os.path.ismount(mount):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield HostileFiles(mount=mount, server=server)
        finally:
            server.kill()
            command = ["umount", "-l"] if os.getuid() == 0 else ["fusermount3", "-uz"]
            subprocess.run([*command, mount], timeout=_PATIENCE, check=True)


def can_mount() -> bool:
    """Whether this process can mount a file system of its own. Where it cannot, a test says so."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _put_stand_in(path: Path, file: HostileFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if file.waits:
        os.mkfifo(path, file.mode)
    else:
        path.write_bytes(file.content)
        path.chmod(file.mode)


def _serve(mount: str) -> None:
    """Serve the files that come as lines of JSON on standard input; each is answered by its name."""
    import mfusepy

    files: dict[str, HostileFile] = {}
    sizes: dict[str, int] = {}
    times: dict[str, int] = {}

    def step(path: str, call: str) -> HostileFile | None:
        """Do to the caller what the file does to all."""
        name = path.strip("/")
        while file := files.get(name):
            if call not in file.waits:
                break
            time.sleep(0.05)
        if file is None:
            if name and not any(other.startswith(f"{name}/") for other in files):
                raise mfusepy.FuseOSError(errno.ENOENT)
            return None
        time.sleep(file.delay)
        if call != "open":
            sizes[name] = max(0, sizes[name] + file.growth)
        return file

    class System(mfusepy.Operations):
        use_ns = True

        def init(self, path: str) -> None:
            print("mounted", flush=True)

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            file = step(path, "getattr")
            changed = times.get(path.strip("/"), 0)
            common = {"st_mtime": changed, "st_ctime": changed, "st_atime": changed, "st_nlink": 1}
            if file is None:
                return common | {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            size = sizes[path.strip("/")]
            return common | {
                "st_mode": stat.S_IFREG | file.mode,
                "st_size": size,
                "st_blocks": -(-size // 512),
                "st_uid": file.owner,
                "st_gid": file.owner,
            }

        def readdir(self, path: str, fh: int) -> list[str]:
            above = path.strip("/") + "/" if path != "/" else ""
            names = {n.removeprefix(above).split("/")[0] for n in files if n.startswith(above)}
            return [".", "..", *sorted(names)]

        def open(self, path: str, fi: Any) -> int:
            file = step(path, "open")
            fi.direct_io = bool(file and file.endless)
            return 0

        def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
            file = step(path, "read")
            if file is None:
                raise mfusepy.FuseOSError(errno.EISDIR)
            end = offset + size if file.endless else min(offset + size, sizes[path.strip("/")])
            return file.content[offset:end].ljust(max(0, end - offset), b"\0")

    def take_over() -> None:
        for line in sys.stdin:
            for name, values in json.loads(line).items():
                file = HostileFile(**values | {"content": base64.b64decode(values["content"])})
                sizes[name] = len(file.content) if file.size is None else file.size
                times[name] = time.time_ns()
                files[name] = file
                print(name, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)  # the tests have ended: nobody is to wait any longer

    threading.Thread(target=take_over, daemon=True).start()
    options: dict[str, Any] = {"allow_other": True} if os.getuid() == 0 else {}
    mfusepy.FUSE(
        System(), mount, raw_fi=True, foreground=True, attr_timeout=0, entry_timeout=0,
        negative_timeout=0, max_threads=_MOST_THREADS, **options,
    )  # fmt: skip


if __name__ == "__main__":
    _serve(sys.argv[1])

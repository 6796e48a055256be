"""Cases of settings and preloads that have no effect, and of programs that start privileged."""

import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dballoc.allocators import find_library
from dballoc.ground.errors import Failure
from dballoc.servers import build as server_builds
from report_cases.case import Case, Judgement, judge_absence, judge_words
from report_cases.private_server import ANSWER, PrivateServer, Workshop

# An account that every system has.
_NOBODY = 65534
# Gives the data directory to that user, and runs the server as it.
_AS_NOBODY = """
for word; do case $word in --datadir=*) data=${word#--datadir=};; esac; done
place=$(dirname "$data")
chown -R 65534:65534 "$data"
chmod 777 "$place"
chmod 711 "$(dirname "$place")"
exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
"""
AS_NOBODY = ("sh", "-c", _AS_NOBODY, "sh")
# Seconds that the sessions of a case stay, and how many there are.
_STAY, _SESSIONS = 12, 24


def copy_privileged(workshop: Workshop, capability: int, place: Path | None = None) -> Path:
    """Copy MariaDB's server and give the copy a file capability, by its number, as setcap does.
    Failure where that is not possible.
    """
    place = place or workshop.place
    place.mkdir(parents=True, exist_ok=True)
    copy = place / "mariadbd"
    shutil.copy(server_builds.find("mariadb", None).executable, copy)
    copy.chmod(0o755)
    workshop.place.chmod(0o711)
    try:
        os.setxattr(
            copy, "security.capability", struct.pack("<5I", 0x02000001, 1 << capability, 0, 0, 0)
        )
    except OSError as error:
        raise Failure(f"no file capabilities can be set here: {error.strerror}") from None
    return copy


def run_dballoc(*arguments: str, prefix: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    """Run a verb of dballoc on no particular server."""
    return subprocess.run(
        [*prefix, sys.executable, "-I", "-m", "dballoc", *arguments],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ANSWER,
        check=False,
    )


def verify(server: PrivateServer, *arguments: str) -> str:
    """Return what ``dballoc verify`` prints, and its exit status in the last line."""
    ended = server.run_dballoc("verify", str(server.pid), *arguments)
    return f"{ended.stdout}{ended.stderr}exit {ended.returncode}"


def find_preload(name: str) -> str:
    """Find the first library of an allocator. UsageError if it is not here."""
    return str(find_library.find_allocator(name).libraries[0])


def preload_in_vain(workshop: Workshop) -> Iterator[Judgement]:
    """Preloads that are not what they seem."""
    missing = {"LD_PRELOAD": "/tools/lib/libjemalloc.so.2"}
    with workshop.start("mariadb", environment=missing) as server:
        text = verify(server, "--expect", "jemalloc")
        yield judge_words("a path that does not exist", text, "names it, but it is not loaded")
        yield judge_words("a path that does not exist", text, "not jemalloc.*\n?exit 1")
    both = {"LD_PRELOAD": f"{find_preload('tcmalloc')}:{find_preload('jemalloc')}"}
    with workshop.start("mariadb", environment=both) as server:
        text = verify(server)
        yield judge_words("tcmalloc before jemalloc", text, "uses gperftools tcmalloc")
        yield judge_words("tcmalloc before jemalloc", text, "but malloc comes from another library")
    nice = 23
    copy = copy_privileged(workshop, nice)
    preload = {"LD_PRELOAD": find_preload("jemalloc")}
    with workshop.start(
        "mariadb", environment=preload, prefix=AS_NOBODY, executable=copy
    ) as server:
        text = verify(server, "--expect", "jemalloc")
        cause = r"started privileged \(file capability cap_sys_nice\)"
        yield judge_words("a file capability", text, f"LD_PRELOAD is ignored: it was {cause}")
        yield judge_words("a file capability", text, "AmbientCapabilities=CAP_SYS_NICE")
        yield judge_words("a file capability", text, "exit 1")
        yield judge_absence("a file capability", text, "missing, unreadable")


def set_in_vain(workshop: Workshop) -> Iterator[Judgement]:
    """A server with a file capability ignores glibc's settings: verify and explain know."""
    settings = {"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}
    copy = copy_privileged(workshop, 23)
    with workshop.start(
        "mariadb",
        "--max-allowed-packet=64M",
        environment=settings,
        prefix=AS_NOBODY,
        executable=copy,
    ) as server:
        for variable, value in settings.items():
            text = verify(server, "--expect", "glibc", "--setting", f"{variable}={value}")
            yield judge_words(variable, text, "has no effect: ignored.*\n?exit 1")
        threads = [threading.Thread(target=_stay, args=(server,)) for _ in range(_SESSIONS)]
        for thread in threads:
            thread.start()
        time.sleep(_STAY / 3)
        document = server.explain()
        for thread in threads:
            thread.join()
        arenas = document["evidence"]["arenas"]
        yield Judgement(subject="arenas", printed=str(arenas), right="> 2", passed=arenas > 2)
        notes = "\n".join(document["notes"])
        yield judge_words("explain", notes, "MALLOC_ARENA_MAX=2 has no effect")
        remedies = "\n".join(words for v in document["verdicts"] for words in v["remedies"])
        yield judge_words("its advice", remedies, "MALLOC_ARENA_MAX")
        settings_now = str(document["evidence"]["settings"])
        yield judge_absence("settings that explain believes", settings_now, "MALLOC_ARENA_MAX")


def _stay(server: PrivateServer) -> None:
    """Allocate some in a session of its own, and stay connected."""
    server.query("SELECT sha2(repeat('x', 3000000), 256)", f"SELECT sleep({_STAY})")


def misspell(workshop: Workshop) -> Iterator[Judgement]:
    """Settings that are misspelt, or have a value that is none."""
    for name, environment, patterns in (
        (
            "glibc",
            {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.trim_treshold=4096"},
            ("trim_treshold=4096 has no effect: .* did you mean 'trim_threshold'",),
        ),
        (
            "jemalloc",
            {"MALLOC_CONF": "narena:2,dirty_decay_ms:x"},
            ("narena:2 has no effect", "dirty_decay_ms:x has no effect"),
        ),
        ("glibc", {"MALLOC_ARENA_MAX": "two"}, ("MALLOC_ARENA_MAX=two has no effect",)),
    ):
        preload = {} if name == "glibc" else {"LD_PRELOAD": find_preload(name)}
        with workshop.start("mariadb", environment={**preload, **environment}) as server:
            ((variable, value),) = environment.items()
            text = verify(server, "--expect", name, "--setting", f"{variable}={value}")
            for pattern in (*patterns, "exit 1"):
                yield judge_words(variable, text, pattern)


def probe_in_vain(workshop: Workshop) -> Iterator[Judgement]:
    """``exec`` refuses a program that would ignore its probe."""
    copy = copy_privileged(workshop, 14)
    out = workshop.place / "probe"
    out.mkdir()
    os.chown(out, _NOBODY, _NOBODY)
    as_nobody = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--")
    ended = run_dballoc(
        *("exec", "--probe", "heap", "--out", str(out), "--", str(copy)),
        prefix=as_nobody,
    )
    text = f"{ended.stdout}{ended.stderr}exit {ended.returncode}"
    yield judge_words("exec", text, r"starts privileged \(file capability cap_ipc_lock\)")
    yield judge_words("exec", text, "exit 2")
    yield judge_absence("exec", text, "ask it: dballoc profile heap")


def measure_in_vain(workshop: Workshop) -> Iterator[Judgement]:
    """``bench`` refuses a build that would ignore its preloads, and says why."""
    build = server_builds.find("mariadb", None)
    base = workshop.place / "base"
    copy_privileged(workshop, 14, base / "sbin")
    (base / "share").mkdir()
    shutil.copytree(build.share, base / "share" / "mysql")
    experiment = workshop.place / "privileged.toml"
    experiment.write_text(
        f"""baseline = "glibc"
workloads = ["oltp_read_only"]
threads = [1]
budget = "1m"
[server]
use = "mariadb"
basedir = "{base}"
[data]
tables = 1
rows = 1000
[[variant]]
name = "glibc"
[[variant]]
name = "jemalloc"
allocator = "jemalloc"
""",
        encoding="utf-8",
    )
    ended = run_dballoc("bench", str(experiment), "--out", f"{workshop.place}/results")
    text = f"{ended.stdout}{ended.stderr}exit {ended.returncode}"
    yield judge_words("bench", text, r"starts privileged \(file capability cap_ipc_lock\)")
    yield judge_words("bench", text, "exit 2")


CASES = [
    Case(name="07", report="kubeblocks#10073, centreon#11587", run=preload_in_vain),
    Case(name="07b", report="MariaDB/server#3157", run=set_in_vain),
    Case(name="07c", report="settings misspelt", run=misspell),
    Case(name="38", report="a probe in a privileged program", run=probe_in_vain),
    Case(name="39", report="a campaign on a privileged program", run=measure_in_vain),
]

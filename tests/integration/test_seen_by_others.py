"""What another user of the host can read while dballoc's verbs run as root, and what they leave."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from harness import Cli, Done, Experiment, wait_until
from other_user import watch
from probed_server import ProbedServer

pytestmark = pytest.mark.alone

NOBODY = 65534
# What users ask for has the modes that their umask gives: results, a report, profiles; no logs, no
# locks, no files of servers and clients.
RESULTS = (
    r"out/\w+(/(charts|csv|own|trials(/[\w-]+)?))?",
    r"out/\w+/trials/[\w-]+/(maps\.txt|[\w-]+\.tsv)",
    r"out/\w+/[\w./-]+\.(csv|html|json|json\.gz|md|png|sqlite|sqlite-journal|svg|toml)",
)
# Who has a stack with a secret on it, and switches threads.
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
  char secret[4096];
  for (int i = 0; i + 64 < (int)sizeof secret; i += 64) sprintf(secret + i, "%s%d", "a secret of the stack ", i);
  memset(words[1], 0, strlen(words[1]));
  for (;;) { usleep(500); if (!secret[count]) return 1; }
}
"""
SERVER = """
#include <stdio.h>
int main(void) { printf("mysqld  Ver 8.9.9 for Linux on x86_64 (Ours)\\n"); return 0; }
"""
SECRET = b"a secret of the stack"


@dataclass
class Watched:
    """Verbs with a cache, a directory for temporary files and outputs of their own, which another
    user watches. ``allowed``: what may be read, regular expressions of paths below ``place``.
    """

    place: Path
    run_cli: Cli
    allowed: list[str] = field(default_factory=lambda: ["tmp", "out"])

    @property
    def env(self) -> dict[str, str]:
        """The environment of the verbs."""
        return {
            "DBALLOC_CACHE": str(self.place / "cache"),
            "DBALLOC_STORE": str(self.place / "store"),
            "TMPDIR": str(self.place / "tmp"),
        }

    @property
    def out(self) -> Path:
        """A directory of the user's, for outputs."""
        return self.place / "out"

    def run(self, *words: str | Path, allow: tuple[str, ...] = ()) -> Done:
        """Run a verb to its end, and check what could be read meanwhile and can be now."""
        with watch(NOBODY, self.place, Path("/run/dballoc")) as readable:
            done = self.run_cli(*words, env=self.env)
            time.sleep(0.1)  # what is left is looked at, too
        assert done.status == 0, done.text
        self.check(readable, *allow)
        return done

    def check(self, readable: dict[str, str], *allow: str) -> None:
        """Nothing but what is allowed could be read."""
        assert str(self.out) in readable, "the watcher sees what it may see"
        expected = re.compile("|".join([*self.allowed, *allow, r"\."]))
        paths = {os.path.relpath(path, self.place): mode for path, mode in readable.items()}
        seen = [f"{path} {mode}" for path, mode in paths.items() if not expected.fullmatch(path)]
        assert not seen, "\n".join(sorted(seen))


@pytest.fixture
def watched(needs_root: None, run_cli: Cli) -> Iterator[Watched]:
    place = Path(tempfile.mkdtemp(prefix="seen-", dir=run_cli.home))
    for name in ("tmp", "out"):
        (place / name).mkdir()
    for path in (place, place / "tmp", place / "out"):
        path.chmod(0o755)
    yield Watched(place, run_cli)
    shutil.rmtree(place)


def test_a_campaign_and_its_report(watched: Watched, tiny_experiment: Experiment) -> None:
    experiment = tiny_experiment(
        variant=[{"name": "glibc"}], time={"idle": "0s"}, data={"tables": 1, "rows": 100}
    )
    results = watched.out / "r"
    watched.run("bench", experiment, "--out", results, allow=RESULTS)
    assert list((watched.place / "cache/templates").glob("*/data"))
    watched.run("report", results, allow=RESULTS)


@pytest.fixture
def program(watched: Watched) -> Iterator[int]:
    """A program whose executable only its user may read."""
    place = watched.place / "program"
    place.mkdir(mode=0o700)
    (place / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-o", place / "p", place / "p.c"], check=True)
    (place / "p").chmod(0o700)
    with subprocess.Popen([place / "p", "x"]) as process:
        yield process.pid
        process.kill()


def test_the_stack_of_a_process_whose_waits_are_recorded(watched: Watched, program: int) -> None:
    """The recording has its stack, and perf needs its executable."""
    scratch = watched.place / "cache/scratch"
    secrets, executables = [], []
    with watch(NOBODY, watched.place) as readable:
        running = watched.run_cli.start(
            *("profile", "contention", "--pid", str(program), "--seconds", "1", "--json"),
            *("--method", "perf", "--out", watched.out / "contention"),
            env=watched.env,
        )
        while running.poll() is None:
            for path in scratch.glob("*/*.data") if scratch.exists() else ():
                with suppress(FileNotFoundError):
                    secrets.append(SECRET in path.read_bytes())
            executables += scratch.glob("*/files-by-number/*")
            time.sleep(0.02)
        done = watched.run_cli.end(running)
    if "perf is not" in done.stderr:
        pytest.skip(done.stderr)
    assert done.status == 0, done.text
    assert any(secrets), "the recording has the secret"
    watched.check(readable, *RESULTS)
    assert executables


def test_a_server_with_the_heap_probe(watched: Watched) -> None:
    server = ProbedServer(
        watched.place / "server",
        watched.run_cli,
        ["--probe", "heap", "--interval", "64K"],
        env=watched.env,
    )
    try:
        wait_until(lambda: server.socket.exists() or server.process.poll() is not None)
        pid = str(server.process.pid)
        of_the_server = r"server(/.*)?"
        watched.run("explain", "--pid", pid, "--json", allow=(of_the_server,))
        watched.run(
            *("profile", "heap", "--pid", pid, "--out", watched.out / "heap"),
            allow=(*RESULTS, of_the_server),
        )
        assert list((watched.place / "cache/symbols").iterdir())
    finally:
        server.kill()


def test_a_recording_and_its_replay(watched: Watched) -> None:
    watched.run(
        *("exec", "--probe", "trace", "--out", watched.out / "recorded", "--"),
        *(sys.executable, "-c", "[bytes(999) for _ in range(9999)]"),
        allow=("out/recorded",),
    )
    (recording,) = (watched.out / "recorded").glob("*.recording")
    watched.run(
        *("replay", recording, "--allocators", "glibc", "--blocks", "1", "--idle", "50ms"),
        *("--out", watched.out / "replayed"),
        allow=RESULTS,
    )


def test_a_server_that_is_fetched(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "mysqld.c").write_text(SERVER)
    subprocess.run(["cc", "-o", tmp_path / "mysqld", tmp_path / "mysqld.c"], check=True)
    archive = tmp_path / "server.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "mysqld", "top/bin/mysqld")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    watched.run(
        *("fetch", "mysql@8.9.9", "--from", archive, "--sha256", digest), allow=(r"store(/.*)?",)
    )
    (manifest,) = (watched.place / "store").glob("*/manifest.json")
    assert manifest.stat().st_mode & 0o004, "another user's dballoc can use what root has fetched"

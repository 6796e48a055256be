"""A real server, and dballoc, in a container that has one user, as an ordinary user makes them."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import BIN, Cli, Done

pytestmark = pytest.mark.unprivileged

CONTAINER = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
# $0: an empty directory; $1: the server; then a command that takes its PID. The server fills the
# directory and reads statements, of which none come. It ends with the shell, the container's init.
INSIDE = """
mariadbd=$1
shift
: >"$0.log"  # the pipeline below opens it in its own time, perhaps after the first grep
sleep 600 | "$mariadbd" --no-defaults --bootstrap --user=root --datadir="$0" --skip-networking \
    --innodb-buffer-pool-size=16M --innodb-log-file-size=4M >"$0.log" 2>&1 &
server=$!
for _ in $(seq 600); do
    grep -q "log sequence number" "$0.log" && break
    sleep 0.1
done
"$@" "$server"
"""


@pytest.fixture
def run_inside(run_cli: Cli) -> Iterator[Callable[..., Done]]:
    """``run_inside("explain", "--pid")``: a verb on the PID of a server, both in one container."""
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host allows no user namespaces, or no /proc of their own")
    server = shutil.which("mariadbd", path=BIN)
    assert server is not None
    place = Path(tempfile.mkdtemp(prefix="one-user-", dir=run_cli.home))
    (place / "data").mkdir()
    prefix = (*CONTAINER, "sh", "-c", INSIDE, str(place / "data"), server)
    yield lambda *words: run_cli(*words, prefix=prefix)
    shutil.rmtree(place)


def test_its_memory_is_explained(run_inside: Callable[..., Done]) -> None:
    done = run_inside("explain", "--json", "--pid")
    assert (done.status, done.stderr) == (0, "")
    ledger = json.loads(done.stdout)
    assert ledger["rss"] > 16 << 20
    assert abs(ledger["rest"]) <= 0.01 * ledger["rss"]


def test_its_malloc_is_read(run_inside: Callable[..., Done]) -> None:
    done = run_inside("verify")
    assert done.status == 0, done.stderr
    assert "glibc" in done.stdout

"""How soon a bare host explains a running server: by the portable file, and by the wheel.

    fresh_hosts.py DIST ROOTS [SUITE[=MIRROR]…]

DIST is what `make dist` and `make portable` built; ROOTS keeps a minimal root of each suite
(debootstrap), made if it is not there. Each suite by default, of Debian and of Ubuntu; where Python
is new enough the wheel is installed too, the others have none. Without a mirror it is debootstrap's
own; for Ubuntu's suites that wants their keys on this machine. A private MariaDB runs on this
machine; the roots see it, as they share its processes, but have no network and a fresh /tmp.
Printed: seconds from the start of the command to the ledger, three times by the portable file, once
by the wheel with its installation; and in what the JSON of wheel and portable file differs from
this checkout's: sizes by more than 2 % and 1 MiB, all else at all, beside times, texts that say
them, and the page cache of the server's cgroup. Needs root, and ten minutes for new roots. The exit
status is 1 where a ledger takes longer than ten seconds, where one differs, where the package
leaves something, or where the host has a compiler, or a Python that it should not have.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
DBALLOC = CHECKOUT / ".venv/bin/dballoc"
UBUNTU = ("focal", "jammy", "noble")
SCRIPTS = Path("/usr/share/debootstrap/scripts")
SUITES = ("bullseye", "bookworm", "trixie", *UBUNTU)
# The Python of each suite; that of the others is too old for the wheel.
PYTHONS = {"bookworm": "3.11", "trixie": "3.13", "noble": "3.12"}
# Times, texts that say sizes or times, and the page cache of the server's cgroup, which may be this
# benchmark's too: it copies files.
MOMENTS = re.compile(
    r"\.(answer|taken|seconds|note|uptime|uptime_since_flush_status|cpu_share|running_seconds"
    r"|cpu_seconds|evidence\.\d+|beside\.charged to .*|cgroup\.(charged|inactive_file))$"
)
# By how much the sizes of two looks at one server may differ: a share, and bytes.
MOST_SHARE, MOST_BYTES = 0.02, 1 << 20
# Seconds to a ledger.
MOST_SECONDS = 10.0

_TOOLS = "for tool in cc gcc clang python3; do command -v $tool || true; done"
# The package installed, used (profile makes a cache) and removed; what is then there and was not,
# or the other way.
_PACKAGE = """
list() {
    find / -xdev -not -path '/tmp/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' | sort
}
list >/tmp/before
dpkg --install /tmp/*.deb >/dev/null
dballoc explain --pid PID --json >/tmp/explained
dballoc profile contention --pid PID --seconds 1 >/tmp/waits
dpkg --purge dballoc >/dev/null
list | diff /tmp/before - || true
"""


def make_root(suite: str, root: Path, mirror: str) -> None:
    """Make a minimal root; one for the wheel has Python, as such a host does."""
    if (root / ".complete").exists():
        return
    python = "--include=python3,python3-venv" if suite in PYTHONS else "--exclude=python3"
    components = "--components=main,universe" if suite in UBUNTU else "--components=main"
    words: list[str | Path] = ["debootstrap", "--variant=minbase", components, python, suite, root]
    if mirror:
        words.append(mirror)
        # An older debootstrap knows no newer suite, but each of Ubuntu's is made in the same way.
        if suite in UBUNTU and not (SCRIPTS / suite).exists():
            words.append(SCRIPTS / "jammy")
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    (root / ".complete").touch()


def start_server(place: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a MariaDB as its own user, and return it when it answers."""
    place.chmod(0o755)
    data, sockets = place / "data", place / "run"
    as_user: dict[str, Any] = {"user": 61001, "group": 61001, "extra_groups": []}
    for directory in (data, sockets):
        directory.mkdir()
        os.chown(directory, 61001, 61001)
    words = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"]
    words += ["--auth-root-authentication-method=normal"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, **as_user)
    words = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={sockets}/s"]
    words += [f"--pid-file={sockets}/p", "--skip-networking", "--innodb-buffer-pool-size=32M"]
    with (place / "log").open("wb") as log:
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        server = subprocess.Popen(words, stdout=log, stderr=log, env=environ, **as_user)
    deadline = time.monotonic() + 120
    while not (sockets / "s").exists():
        if server.poll() is not None or time.monotonic() > deadline:
            sys.exit((place / "log").read_text())
        time.sleep(0.1)
    return server, server.pid


def run_inside(
    root: Path, files: Sequence[Path], line: str, own: Path | None = None
) -> tuple[float, str]:
    """Run a line of shell in a root without network, with these files in a fresh /tmp; return its
    seconds and what it printed. ``own``: an empty directory that is its /tmp and stays; with it the
    line sees no processes but its own.
    """
    inner = (
        'root=$1; line=$2; own=$3; shift 3; mount --rbind /sys "$root/sys"; '
        'if [ "$own" ]; then mount -t proc none "$root/proc"; mount --bind "$own" "$root/tmp"; '
        'else mount --bind /proc "$root/proc"; mount -t tmpfs none "$root/tmp"; fi; '
        'cp -r "$@" "$root/tmp"; date +%s.%N; '
        'chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$line"; '
        "date +%s.%N"
    )
    words: list[str | Path] = ["unshare", "--mount", "--net"]
    words += ["--pid", "--fork", "--kill-child"] if own else []
    words += ["sh", "-euc", inner, "sh", root, line, own or "", *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{root.name}: {done.stdout}{done.stderr}")
    start, _, rest = done.stdout.partition("\n")
    text, _, end = rest.rstrip("\n").rpartition("\n")
    return float(end) - float(start), text


def download_wheels(dist: Path, python: str, place: Path) -> Path:
    """Return a directory with the wheel and all that it depends on: what a host without network is
    given.
    """
    [wheel] = dist.glob("*_x86_64.whl")
    words: list[str | Path] = [CHECKOUT / ".venv/bin/python", "-I", "-m", "pip", "--quiet"]
    words += ["download", "--dest", place, "--only-binary", ":all:"]
    words += ["--python-version", python, "--implementation", "cp"]
    for platform in ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"):
        words += ["--platform", platform]
    words += ["--require-hashes", "--requirement", CHECKOUT / "tools/locks/portable.txt"]
    subprocess.run(words, check=True)
    shutil.copy(wheel, place)
    return place


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each leaf of a JSON document."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from flatten(inner, f"{path}.{key}")
    else:
        yield path, value


def compare_explanations(one: dict, other: dict) -> list[str]:
    """Return the paths of what differs, and is no figure of a moment."""
    left, right = dict(flatten(one)), dict(flatten(other))
    return [
        f"{path}: {left.get(path)!r} {right.get(path)!r}"
        for path in sorted(left.keys() | right.keys())
        if (path in left) != (path in right)
        or not (MOMENTS.search(path) or is_near(left[path], right[path]))
    ]


def is_near(one: Any, other: Any) -> bool:
    """Whether two values of two looks are the same, or sizes that are nearly."""
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (one, other)):
        return bool(one == other)
    return bool(abs(one - other) <= max(MOST_BYTES, MOST_SHARE * max(abs(one), abs(other))))


def measure_suite(suite: str, root: Path, dist: Path, pid: int) -> list[str]:
    """Print a suite's figures, and return what is missed."""
    missed = []

    def judge(what: str, seconds: float, differences: list[str]) -> None:
        if seconds > MOST_SECONDS:
            missed.append(
                f"{suite}: {what}: {seconds:.1f} s to the ledger, more than {MOST_SECONDS:g}"
            )
        missed.extend(f"{suite}: {what} differs: {each}" for each in differences)

    words: list[str | Path] = [DBALLOC, "explain", "--pid", str(pid), "--json"]
    for _ in range(2):  # the first look's session is a new thread of the server's
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    here = json.loads(done.stdout)
    _, tools = run_inside(root, [DBALLOC], _TOOLS)
    print(f"{suite}: has {' '.join(tools.split()) or 'no compiler and no Python'}")
    wanted = ["/usr/bin/python3"] if suite in PYTHONS else []
    if tools.split() != wanted:
        missed.append(f"{suite}: has {tools.split()}, and should have {wanted}")
    portable = dist / "dballoc-portable"
    for _ in range(3):
        line = f"cd /tmp && ./dballoc-portable explain --pid {pid} --json"
        seconds, text = run_inside(root, [portable], line)
        explanation = json.loads(text)
        differences = compare_explanations(here, explanation)
        judge("portable file", seconds, differences)
        print(
            f"  portable file: {seconds:.1f} s to the ledger, rss {explanation['rss']}, "
            f"differs in {differences or 'moments alone'}"
        )
    [package] = dist.glob("*.deb")
    seconds, left = run_inside(root, [package], _PACKAGE.replace("PID", str(pid)))
    print(f"  package: {seconds:.1f} s, installed, used and removed; left: {left or 'nothing'}")
    if left:
        missed.append(f"{suite}: the package leaves {left}")
    if suite not in PYTHONS:
        return missed
    with tempfile.TemporaryDirectory() as scratch:
        wheels = download_wheels(dist, PYTHONS[suite], Path(scratch) / "wheels")
        line = (
            "cd /tmp && python3 -m venv v && v/bin/pip -q install --no-index --find-links wheels "
            f"dballoc && v/bin/dballoc explain --pid {pid} --json"
        )
        seconds, text = run_inside(root, [wheels], line)
        differences = compare_explanations(here, json.loads(text))
        judge("wheel", seconds, differences)
        print(
            f"  wheel: {seconds:.1f} s from the installation to the ledger, "
            f"differs in {differences or 'moments alone'}",
            flush=True,
        )
    return missed


def main(words: Sequence[str]) -> int:
    """Measure each suite; return the exit status."""
    if len(words) < 2 or os.geteuid() != 0:
        sys.exit(f"{__doc__}\nRun it as root.")
    dist, roots = Path(words[0]).absolute(), Path(words[1]).absolute()
    roots.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="fresh-hosts-"))
    server, pid = start_server(place)
    missed = []
    try:
        for word in words[2:] or SUITES:
            suite, _, mirror = word.partition("=")
            make_root(suite, roots / suite, mirror)
            missed += measure_suite(suite, roots / suite, dist, pid)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(place)
    for line in missed:
        print(f"MISSED: {line}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

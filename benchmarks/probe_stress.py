"""Programs made to break a malloc, under the heap probe over every malloc that is here, as long as
one likes.

    python benchmarks/probe_stress.py [--minutes 30] [--seed N] [ALLOCATOR[@VERSION] …]

Each run is once without and once with the probe (an interval of 1 KiB: 500 times as many samples as
usual), while its socket is asked for status and snapshots without end; what counts is whether the
program ends in the same way.

storm       tests/native/probed.c: 256 threads that come and go, forks, libraries, signals,
destructors of thread-specific data threads     the same without forks family      every function of
the family, with what its manual promises mimalloc    mimalloc's own stress test, test/test-stress.c
of its crate, built for the C library's malloc (needs cargo) stress-ng   stress-ng --malloc
--verify, if it is here (apt-get install stress-ng)

A program that fails by itself is no fault of the probe's; it is counted apart. After a fault it is
run without the probe some more times, for what breaks now and then: tbbmalloc 2020.3 hangs in two
storms of five. Exit status 1 after a fault of the probe's.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from dballoc.allocators import find_library
from dballoc.allocators.find_library import Allocator
from dballoc.catalogue import allocators
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process
from dballoc.instruments.ways_in import preload as preload_launch
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, PreloadSocket
from dballoc.profile.heap import probe_client

NATIVE = Path(__file__).parent.parent / "tests" / "native"
CRATE = "libmimalloc-sys"
LONGEST = 120.0
# Runs without the probe after a fault.
AGAIN = 10

Outcome = tuple[int | str, str, str]


def built(directory: Path) -> dict[str, list[str]]:
    """The commands by name; a program that cannot be had is left out, and said so."""
    flags = [
        "-std=c17",
        "-D_GNU_SOURCE",
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-fno-builtin-malloc",
        "-pthread",
    ]
    probed = str(directory / "probed")
    subprocess.run(
        ["cc", *flags, "-o", probed, NATIVE / "probed.c", "-l:libstdc++.so.6"], check=True
    )
    found = {mode: [probed, mode] for mode in ("storm", "threads", "family")}
    if source := mimallocs_own(directory):
        program = str(directory / "test-stress")
        subprocess.run(
            ["cc", "-O1", "-g", "-DUSE_STD_MALLOC", "-pthread", "-o", program, source], check=True
        )
        found["mimalloc"] = [program, "8", "20", "10"]
    else:
        print(
            "mimalloc's test-stress.c cannot be had: no cargo, or no way to its registry",
            file=sys.stderr,
        )
    if stress := shutil.which("stress-ng"):
        found["stress-ng"] = [
            stress,
            "--malloc",
            "2",
            "--malloc-bytes",
            "64M",
            "--verify",
            "--timeout",
            "5s",
            "--quiet",
        ]
    else:
        print("stress-ng is not here: apt-get install stress-ng", file=sys.stderr)
    return found


def mimallocs_own(directory: Path) -> Path | None:
    """Its stress test, from the crate that carries its sources with their tests."""
    if not shutil.which("cargo"):
        return None
    project = directory / "crate"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    # The versions from 0.1.25 on leave the tests out.
    (project / "Cargo.toml").write_text(
        '[package]\nname = "x"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{CRATE} = "=0.1.24"\n'
    )
    done = subprocess.run(
        ["cargo", "vendor", "--quiet"], cwd=project, capture_output=True, check=False
    )
    found = (
        sorted((project / "vendor").glob("**/test/test-stress.c")) if done.returncode == 0 else []
    )
    return found[0] if found else None


def here(asked: list[str]) -> list[Allocator]:
    """The mallocs asked for, or all that are on this machine."""
    found = []
    for name in asked or allocators():
        try:
            found.append(find_library.find_allocator(name))
        except UsageError:
            if asked:
                raise
            print(f"not here: {name}", file=sys.stderr)
    return [a for a in found if a.loader is None and a.server_library is None]


def run(command: list[str], preload: list[Path], variables: dict[str, str], cwd: Path) -> Outcome:
    """How it ends: exit status, and what it says unless it counts or times itself, as mimalloc's
    and stress-ng do.
    """
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": ":".join(map(str, preload)), **variables}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=env, stdout=pipe, stderr=pipe, text=True, cwd=cwd, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children too, that hold the pipes
            return "hangs", "", ""
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    same = "probed" in command[0]
    return process.returncode, out if same else "", err if same else ""


def ask(sockets: Path, stop: threading.Event, answers: Counter[str]) -> None:
    """Ask whatever probe listens there, again and again."""
    turn = 0
    while not stop.is_set():
        for path in list(sockets.glob("*.sock")):
            turn += 1
            process = Process.open(int(path.stem))
            there = probe_client.Probe(
                PreloadSocket(kind=HEAP_PROBE, process=process, root=Path("/"), path=str(path))
            )
            try:
                if turn % 3:
                    there.status()
                else:
                    there.snapshot()
                answers["answered"] += 1
            except Failure:
                answers["gone meanwhile"] += 1
        time.sleep(0.01)


def main() -> None:
    """Run until the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("allocator", nargs="*")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    mallocs, chance = here(args.allocator), random.Random(args.seed)
    runs: Counter[str] = Counter()
    by_itself: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    faults = 0
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="dbs-", dir="/tmp") as made:  # a short path: sockets
        directory = Path(made)
        sockets = directory / "sockets"
        sockets.mkdir()
        commands = built(directory)
        asker = threading.Thread(target=ask, args=(sockets, stop, answers))
        asker.start()
        end = time.monotonic() + args.minutes * 60
        try:
            while time.monotonic() < end:
                malloc, (name, command) = (
                    chance.choice(mallocs),
                    chance.choice(list(commands.items())),
                )
                libraries, what = (
                    list(malloc.libraries),
                    f"{name} under {malloc.name} {malloc.version}",
                )
                plain = run(command, libraries, {}, directory)
                if plain[0] != 0:
                    by_itself[what] += 1
                    continue
                with_probe = run(
                    command,
                    [preload_launch.find_library(HEAP_PROBE), *libraries],
                    {probe_client.VARIABLE: f"1024:{sockets}"},
                    directory,
                )
                runs[f"{malloc.name} {malloc.version}"] += 1
                if with_probe == plain:
                    continue
                if any(run(command, libraries, {}, directory)[0] != 0 for _ in range(AGAIN)):
                    by_itself[what] += 1
                    continue
                faults += 1
                print(
                    f"FAULT: {what}: {with_probe[0]} instead of 0: {with_probe[2][-300:]}",
                    flush=True,
                )
        finally:
            stop.set()
            asker.join()
    print(
        f"{args.minutes:g} minutes, seed {args.seed}: {sum(runs.values())} runs under the probe, "
        f"{faults} faults"
    )
    print("  runs: " + ", ".join(f"{name} {n}" for name, n in sorted(runs.items())))
    print("  the probe was asked: " + ", ".join(f"{n:,} {what}" for what, n in answers.items()))
    for what, n in sorted(by_itself.items()):
        print(f"  fails without the probe: {what}, {n} times")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

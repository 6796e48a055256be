"""What ``dballoc explain`` costs at most, whatever a process does to be expensive to look at.

    python benchmarks/explain_bounds.py                  every kind of tests/native/hostile.c
    python benchmarks/explain_bounds.py sparse chunks    these alone

Each kind is a process of its own, looked at once by a ``dballoc explain --no-sql --json`` of its
own: wall seconds from its start to its end, Python's own start included, CPU seconds, and its peak
resident memory (getrusage(2)). The notes by which it says what it left out are printed below. The
exit status is 1 if a target is missed: 5 s and 300 MiB.

The machine needs 4 GiB for the largest of these processes; each is ended before the next one
starts.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from dballoc.ground.numbers import mebibytes

NATIVE = Path(__file__).parent.parent / "tests" / "native"
MOST_SECONDS, MOST_BYTES = 5.0, 300 << 20
# One that goes astray must not take the machine with it.
ADDRESS_SPACE, PATIENCE = 12 << 30, 120.0

# What is made, how many of it, and in words.
KINDS = {
    "sparse": (65_536, "1 TiB reserved, 1 TiB with a page in every 2 MiB, 65,536 pages"),
    "alternate": (524_288, "every second page of 4 GiB"),
    "mappings": (65_000, "65,000 mappings"),
    "threads": (30_000, "30,000 threads"),
    "chunks": (24, "24 arenas of glibc's, full of chunks of 32 bytes"),
    "caches": (24, "24 arenas, each chunk of which looks like a thread's cache"),
    "bins": (8, "8 arenas, each with all its chunks in one fast bin"),
    "blocks": (262_144, "262,144 blocks that malloc has mapped by itself"),
    "segments": (8_192, "8,192 segments of mimalloc's, 4.2 million pages"),
}

# A malloc that is mimalloc by its name alone.
FALSE_MALLOC = """
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t), __libc_free(void *);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return __libc_realloc(old, size); }
void free(void *old) { __libc_free(old); }
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one look."""

    wall: float
    cpu: float
    peak: int
    notes: list[str]
    refused: str

    @property
    def good(self) -> bool:
        """Whether it was within the targets."""
        return not self.refused and self.wall <= MOST_SECONDS and self.peak <= MOST_BYTES


def compile_all(place: Path) -> tuple[Path, Path]:
    """The program, and the library for those of its kinds that mimalloc has."""
    flags = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    program, library = place / "hostile", place / "libmimalloc.so.2"
    subprocess.run(["cc", *flags, "-o", program, NATIVE / "hostile.c"], check=True)
    (place / "false.c").write_text(FALSE_MALLOC)
    subprocess.run(
        ["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, place / "false.c"],
        check=True,
    )
    return program, library


def look(pid: int, place: Path) -> Cost:
    """By a process of its own, which may take no more than :data:`PATIENCE`."""
    began = time.monotonic()
    with (place / "out").open("wb") as out, (place / "errors").open("wb") as errors:
        child = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-m",
                "dballoc",
                "explain",
                "--pid",
                str(pid),
                "--no-sql",
                "--json",
            ],
            stdout=out,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)
            ),
        )
    while True:
        ended, status, used = os.wait4(child.pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - began > PATIENCE:
            child.kill()
        time.sleep(0.02)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    refused = (
        ""
        if child.returncode == 0
        else f"status {child.returncode}: {(place / 'errors').read_text()[-300:].strip()}"
    )
    notes = [] if refused else json.loads((place / "out").read_text())["notes"]
    return Cost(
        wall=wall,
        cpu=used.ru_utime + used.ru_stime,
        peak=used.ru_maxrss * 1024,
        notes=notes,
        refused=refused,
    )


def measure(kind: str, place: Path, program: Path, library: Path) -> Cost:
    """Of one kind."""
    preload = {"LD_PRELOAD": str(library)} if kind == "segments" else {}
    count, _ = KINDS[kind]
    with subprocess.Popen(
        [program, kind, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **preload},
    ) as hostile:
        assert hostile.stdin
        assert hostile.stdout
        if hostile.stdout.readline() != "ready\n":
            sys.exit(f"{kind}: the program does not stand")
        try:
            return look(hostile.pid, place)
        finally:
            hostile.stdin.close()


def main() -> None:
    """Run it."""
    chosen = sys.argv[1:] or list(KINDS)
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        sys.exit(f"{unknown[0]}: choose from {', '.join(KINDS)}")
    good = True
    with tempfile.TemporaryDirectory(prefix="dballoc-bounds-") as name:
        program, library = compile_all(Path(name))
        for kind in chosen:
            cost = measure(kind, Path(name), program, library)
            good = cost.good and good
            verdict = "ok" if cost.good else "MISSED"
            print(f"{kind}: {KINDS[kind][1]}")
            print(
                f"    {cost.wall:.2f} s, {cost.cpu:.2f} s of CPU, peak {mebibytes(cost.peak)} MiB: "
                f"{verdict}"
            )
            for note in [cost.refused] if cost.refused else cost.notes:
                print(f"    · {note}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

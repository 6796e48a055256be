"""The built native parts are hardened, a file that is not is told from them, and none of it is too
early for a preload.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import MACHINE

from captured_run import run_captured
from dballoc.profile.heap import probe_client

CHECK = Path(__file__).parents[2] / "tools" / "check-hardening"
# What the shim is built from here: it says what it does by a protected stack and one export.
SOURCE = """
#include <string.h>
int prctl(int option, ...);
__attribute__((visibility("default"))) int prctl(int option, ...)
{
    char copy[64];
    memset(copy, option, sizeof copy);
    __asm__ volatile("" : : "r"(copy) : "memory");
    return copy[1];
}
"""
HARD = [
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fstack-protector-strong",
    "-fcf-protection=full",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,-z,ibt,-z,shstk",
    "-Wl,-init,none",
    "-Wl,-fini,none",
]
X86_64 = MACHINE.architecture == "x86_64"


def check(*paths: Path) -> "subprocess.CompletedProcess[str]":
    return run_captured([sys.executable, CHECK, *paths])


def built(directory: Path, *flags: str, source: str = SOURCE) -> Path:
    (directory / "shim.c").write_text(source)
    target = directory / "libdballoc_keep_thp.so"
    subprocess.run(["cc", *HARD, *flags, "-o", target, directory / "shim.c"], check=True)
    return target


@pytest.mark.parametrize("subject", ["probe", "keep_thp", "udf"])
def test_what_is_installed_is_hardened(native_library: Callable[[str], Path], subject: str) -> None:
    done = check(native_library(subject))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not X86_64, reason="the flags are x86-64's")
def test_the_same_flags_pass(tmp_path: Path) -> None:
    done = check(built(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not X86_64, reason="the flags are x86-64's")
@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("-Wl,-z,norelro", "no GNU_RELRO segment"),
        ("-Wl,-z,lazy", "no BIND_NOW"),
        ("-Wl,-z,execstack", "an executable stack"),
        ("-Wl,-rpath,/tmp", "it names directories to take libraries from"),
        ("-Wl,-rpath,/tmp,--disable-new-dtags", "DT_RPATH"),
        ("-fno-stack-protector", "no stack is protected"),
        ("-fcf-protection=none", "does not begin with endbr64"),
        ("-Wl,-init,_init", "DT_INIT does not begin with endbr64"),
    ],
)
def test_what_is_not_is_told(tmp_path: Path, flag: str, fault: str) -> None:
    done = check(built(tmp_path, flag))
    if flag == "-Wl,-init,_init" and not done.returncode:
        pytest.skip("this system's _init begins as it should")
    assert done.returncode == 1
    assert fault in done.stderr


def test_what_it_exports_is_listed(tmp_path: Path) -> None:
    more = SOURCE + '__attribute__((visibility("default"))) int more; int more = 1;\n'
    done = check(built(tmp_path, source=more))
    assert "it exports more, which tools/check-hardening does not list" in done.stderr
    done = check(built(tmp_path, source=SOURCE.replace("prctl", "other")))
    assert "it does not export prctl" in done.stderr
    (tmp_path / "nothing.so").write_bytes(b"\x7fELF")
    done = check(tmp_path / "nothing.so")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


EARLY = """
#include <stdlib.h>
#include <string.h>
static void *from_resolver, *from_constructor;
static int one(void) { return from_resolver != NULL && from_constructor != NULL ? 0 : 1; }
// Runs while the loader still resolves the program's own symbols.
static int (*resolve(void))(void) { from_resolver = malloc(100); memset(from_resolver, 1, 100); return one; }
int chosen(void) __attribute__((ifunc("resolve")));
__attribute__((constructor(101))) static void construct(void) { from_constructor = calloc(3, 100); }
int main(void) { free(from_resolver); free(realloc(from_constructor, 5000)); return chosen(); }
"""


def test_nothing_of_it_is_too_early(native_library: Callable[[str], Path], tmp_path: Path) -> None:
    """The first call of malloc comes before any constructor has run, from a resolver of the
    program's.
    """
    (tmp_path / "early.c").write_text(EARLY)
    MACHINE.compile("cc", tmp_path / "early", "-O1", tmp_path / "early.c")
    preload = ":".join(str(native_library(subject)) for subject in ("keep_thp", "probe"))
    for environ in (
        {},
        {"LD_PRELOAD": preload},
        {"LD_PRELOAD": preload, probe_client.VARIABLE: f"1024:{tmp_path}"},
    ):
        done = run_captured([tmp_path / "early"], env=environ, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")

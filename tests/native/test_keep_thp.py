"""The preload that keeps a server from switching THP off: it swallows one call and changes no
other.
"""

import errno
import subprocess

import pytest

# <linux/prctl.h>
CALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME = 1, 2, 15, 16
PR_SET_THP_DISABLE, PR_GET_THP_DISABLE = 41, 42

def thp_enabled():
    for line in open("/proc/self/status"):
        if line.startswith("THP_enabled:"):
            return line.split()[1]
    return "unknown"
"""


@pytest.fixture(scope="module")
def shim(native_library):
    return native_library("keep_thp")


@pytest.fixture
def calling(under):
    """Run code that calls prctl, under a preload or none; what it prints."""
    return lambda library, code: under(library, CALLS + code)


@pytest.mark.parametrize("word", ["1", "ctypes.c_ulong(1)", "ctypes.c_ulong(-1)"])
def test_the_call_is_swallowed(shim, calling, word):
    code = f"print(libc.prctl(PR_SET_THP_DISABLE, {word}, 0, 0, 0), libc.prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), thp_enabled())"
    result, disabled, enabled = calling(shim, code).split()
    assert (result, disabled) == ("0", "0")
    assert enabled in ("1", "unknown")


def test_without_it_the_call_works(calling):
    """Else the test above would prove nothing."""
    code = "print(libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), libc.prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), thp_enabled())"
    result, disabled, enabled = calling("", code).split()
    assert (result, disabled) == ("0", "1")
    assert enabled in ("0", "unknown")


def test_what_was_disabled_before_can_be_enabled_again(shim, calling):
    """dballoc itself disables THP before exec where a variant asks for that; enabling passes
    through.
    """
    code = """
SYS_prctl = {"x86_64": 157, "aarch64": 167}[__import__("os").uname().machine]
libc.syscall(SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0)
before = libc.prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0)
print(before, libc.prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), libc.prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))
"""
    assert calling(shim, code) == "1 0 0"


def test_pointers_pass_through(shim, calling):
    code = """
libc.prctl(PR_SET_NAME, b"a name", 0, 0, 0)
name, signal = ctypes.create_string_buffer(16), ctypes.c_int()
libc.prctl(PR_GET_NAME, name, 0, 0, 0)
libc.prctl(PR_SET_PDEATHSIG, 10, 0, 0, 0)
libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(signal), 0, 0, 0)
print(name.value.decode(), signal.value, sep=",")
"""
    assert calling(shim, code) == "a name,10"


def test_errors_pass_through(shim, calling):
    code = "print(libc.prctl(123456, 0, 0, 0, 0), ctypes.get_errno())"
    assert calling(shim, code) == f"-1 {errno.EINVAL}"


def test_only_prctl_is_exported(shim):
    """Anything more would slip under the server's own symbols."""
    text = subprocess.run(
        ["nm", "-D", "--defined-only", shim], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in text.splitlines()] == ["prctl"]

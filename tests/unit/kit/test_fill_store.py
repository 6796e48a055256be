"""A kit's store is filled with small programs in place of servers: they run from it when all that
they were made of is gone.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.allocators.find_library import Allocator
from dballoc.fetch import closed_store, private_store
from dballoc.ground.errors import UsageError
from dballoc.host.elf import patch_elf
from dballoc.host.unprivileged import server_user as server_users
from dballoc.kit import fill_store
from dballoc.kit.choose_parts import KitParts, MallocPart, ServerPart
from dballoc.kit.fill_store import StoreFiller
from dballoc.load.sysbench_command import Sysbench
from dballoc.servers.build import Build

# Prints what its library, that library's own, and a plugin say.
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int own(void);
int main(int count, char **words)
{
    void *plugin = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
    int (*ask)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugged") : NULL;
    printf("%d %d\\n", own(), ask ? ask() : 0);
    return 0;
}
"""
CompileLibrary = Callable[..., Path]


def compile_program(source: Path, program: Path, *words: str | Path) -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-o", program, source, *words], check=True)
    return program


@pytest.fixture
def server(tmp_path: Path, c_library: CompileLibrary) -> Build:
    """A server in a directory of its own, with a library that it brings and whose search path leads
    to a place of this machine's, as vendors' do.
    """
    root = tmp_path / "home/mysql"
    for directory in ("lib/private", "lib/plugin", "share/english", "share/charsets", "elsewhere"):
        (root / directory).mkdir(parents=True)
    c_library("deep", "int deep(void) { return 40; }", root / "lib/private")
    own = c_library(
        "own", "int deep(void); int own(void) { return deep() + 2; }", root / "lib/private"
    )
    patch_elf.relink(own, None, [root / "lib/private"])
    c_library(
        "plugged", "int deep(void); int plugged(void) { return deep() + 3; }", root / "lib/plugin"
    )
    (root / "lib/plugin/libplugged.so").rename(root / "lib/plugin/ha_rocksdb.so")
    (tmp_path / "p.c").write_text(PROGRAM)
    libraries = root / "lib/private"
    program = compile_program(
        tmp_path / "p.c", root / "bin/mysqld",
        "-Wl,--no-as-needed", f"-L{libraries}", "-lown", "-ldeep", "-Wl,-rpath,$ORIGIN/../lib/private",
    )  # fmt: skip
    for name in ("share/english/errmsg.sys", "share/charsets/Index.xml", "share/japanese.txt"):
        (root / name).write_text(name)
    return Build(
        family="mysql",
        version="8.0.1",
        executable=program,
        basedir=root,
        share=root / "share",
        plugins=root / "lib/plugin",
    )


@pytest.fixture
def parts(tmp_path: Path, server: Build, c_library: CompileLibrary) -> KitParts:
    home = tmp_path / "home"
    (home / "sysbench").mkdir()
    (home / "sysbench/oltp_common.lua").write_text("-- lua")
    (tmp_path / "s.c").write_text("int main(void) { return 5; }")
    malloc = c_library("mine", "int mine(void) { return 1; }", home)
    return KitParts(
        servers=(
            ServerPart(
                words=("mysql", f"mysql in {server.basedir}"), build=server, of_machine=False, fetched=None,
                plugins=(server.basedir / "lib/plugin/ha_rocksdb.so",),
            ),
        ),
        mallocs=(
            MallocPart(reference="jemalloc", allocator=Allocator(name="jemalloc", libraries=(malloc,), version="5.3.0"), fetched=None),
            MallocPart(reference="glibc@2.36", allocator=Allocator(name="glibc", libraries=(), version="2.36"), fetched=None),
        ),
        files=(malloc,),
        sysbench=Sysbench(compile_program(tmp_path / "s.c", home / "bin/sysbench"), "1.0.20", home / "sysbench"),
    )  # fmt: skip


def test_all_runs_from_the_store_when_the_rest_is_gone(
    tmp_path: Path, parts: KitParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    malloc = parts.files[0]
    content = malloc.read_bytes()
    filler = StoreFiller(tmp_path / "made")
    filler.fill(parts)
    shutil.rmtree(tmp_path / "home")
    store = tmp_path / "far/store"
    store.parent.mkdir()
    (tmp_path / "made").rename(store)
    monkeypatch.setenv("DBALLOC_STORE", str(store))
    monkeypatch.setattr(server_users.ServerUser, "may_not_pass", lambda user, path: None)
    closed = closed_store._open.__wrapped__(store)

    assert closed.find_server("mysql", None).place == store / "mysql@8.0.1"
    entry = closed.find_server("mysql", str(parts.servers[0].build.basedir))
    assert (entry.name, entry.version, entry.manifest["from"]) == (
        "mysql",
        "8.0.1",
        private_store.OF_MACHINE,
    )
    program, plugin = entry.root / "bin/mysqld", entry.root / "lib/plugin/ha_rocksdb.so"
    assert subprocess.check_output([program, plugin], text=True) == "42 43\n"
    listing = subprocess.check_output([program], text=True, env={"LD_TRACE_LOADED_OBJECTS": "1"})
    paths = [word for word in listing.split() if word.startswith("/")]
    assert "libc.so.6" in listing
    assert all(path.startswith(f"{store}/") for path in paths), listing
    shared = {str(path.relative_to(entry.root)) for path in entry.root.rglob("*") if path.is_file()}
    assert {"share/english/errmsg.sys", "share/charsets/Index.xml"} < shared
    assert "share/japanese.txt" not in shared

    assert subprocess.run([closed.sysbench_program], check=False).returncode == 5
    assert (closed.sysbench_program.parent.parent / "share/sysbench/oltp_common.lua").is_file()
    carried, kept = closed.find_malloc("jemalloc")
    assert carried.version == "5.3.0"
    assert kept is not None
    assert kept.libraries[0].read_bytes() == content == closed.find_file(malloc).read_bytes()
    assert closed.find_malloc("glibc@2.36")[0].entry is None


def test_every_part_is_told_with_its_hash(tmp_path: Path, parts: KitParts) -> None:
    filler = StoreFiller(tmp_path / "made")
    filler.fill(parts)
    told = {(part.kind, part.name): part for part in filler.parts}
    assert [kind for kind, _ in told] == ["allocator", "file", "server", "load", "c library"]
    for key, path in {
        ("allocator", "jemalloc"): parts.files[0],
        ("server", "mysql"): parts.servers[0].build.executable,
        ("load", "sysbench"): parts.sysbench.executable,
    }.items():
        assert told[key].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert path in told[key].origins
    assert told["c library", "glibc"].bytes > 1 << 20
    assert json.loads((tmp_path / "made/closed.json").read_text())["format"] == closed_store.FORMAT


def test_two_libraries_of_one_name_are_refused(
    tmp_path: Path, parts: KitParts, c_library: CompileLibrary
) -> None:
    filler = StoreFiller(tmp_path / "made")
    one = c_library("same", "int same(void) { return 1; }")
    entry = fill_store._StoreEntry(place=tmp_path, base=tmp_path, root=tmp_path, closed=False)
    filler._carry_libraries({"libsame.so": one}, entry)
    filler._carry_libraries({"libsame.so": one}, entry)
    other = c_library("same", "int same(void) { return 2; }")
    with pytest.raises(UsageError, match=r"two libraries are called libsame\.so"):
        filler._carry_libraries({"libsame.so": other}, entry)


def test_a_library_by_path_that_looks_in_a_directory_looks_in_the_kit(
    tmp_path: Path, parts: KitParts, c_library: CompileLibrary
) -> None:
    library = c_library("looking", "int looking(void) { return 1; }")
    patch_elf.relink(library, None, [tmp_path / "home"])
    before = library.read_bytes()
    filler = StoreFiller(tmp_path / "made")
    filler._carry_file(library)
    [copy] = (tmp_path / "made/files").rglob("liblooking.so")
    assert patch_elf.read_search_path(copy) == ["$ORIGIN/../../libraries"]
    assert filler.parts[0].sha256 == hashlib.sha256(before).hexdigest()

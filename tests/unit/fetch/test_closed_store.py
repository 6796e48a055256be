"""A kit's store: what the experiment names comes from there alone, and its programs find their
loader wherever the kit lies.
"""

import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dballoc.allocators import find_library
from dballoc.fetch import closed_store, private_store
from dballoc.ground.errors import UsageError
from dballoc.host.elf import patch_elf
from dballoc.host.unprivileged import server_user as server_users
from dballoc.load import sysbench_command
from dballoc.servers import build as find_build

MARKER = {
    "format": 1,
    "servers": {"mariadb": "mariadb@10.11"},
    "mallocs": {
        "jemalloc": {"entry": "jemalloc@5.3.0", "version": "5.3.0"},
        "glibc@2.36": {"entry": None, "version": "2.36"},
    },
    "files": {"/opt/libmine.so": "files/1/libmine.so"},
    "sysbench": "sysbench@1.0.20/root/bin/sysbench",
    "loaders": {"sysbench@1.0.20/root/bin/sysbench": "libraries/ld.so"},
    "hashes": {},
}
PROGRAM = "int main(void) { return 7; }"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Any program that names a loader."""
    place = tmp_path_factory.mktemp("program")
    (place / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-o", place / "p", place / "p.c"], check=True)
    return place / "p"


@pytest.fixture
def store(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A kit's store with one program and one malloc, in which everybody may enter."""
    place = tmp_path / "kit" / "store"
    for directory in ("sysbench@1.0.20/root/bin", "jemalloc@5.3.0/lib", "files/1", "libraries"):
        (place / directory).mkdir(parents=True)
    shutil.copy(program, place / MARKER["sysbench"])
    shutil.copy(patch_elf.read_interpreter(program) or "", place / "libraries/ld.so")
    hashes = {}
    for path in ("jemalloc@5.3.0/lib/libjemalloc.so.2", "files/1/libmine.so"):
        (place / path).write_bytes(b"a library")
        hashes[path] = hashlib.sha256(b"a library").hexdigest()
    (place / "jemalloc@5.3.0/manifest.json").write_text(
        json.dumps(
            {
                "format": 1, "name": "jemalloc", "asked": "5.3.0", "version": "5.3.0",
                "from": "machine", "libraries": ["lib/libjemalloc.so.2"], "bytes": 9,
            }
        )
    )  # fmt: skip
    (place / "closed.json").write_text(json.dumps(MARKER | {"hashes": hashes}))
    monkeypatch.setenv("DBALLOC_STORE", str(place))
    monkeypatch.setattr(server_users.ServerUser, "may_not_pass", lambda user, path: None)
    caches = (
        closed_store._open,
        find_library.find_allocator,
        find_build.find,
        sysbench_command.find,
    )
    for function in caches:
        function.cache_clear()
    yield place
    for function in caches:
        function.cache_clear()


def refusal(function: object, *words: object) -> str:
    with pytest.raises(UsageError) as raised:
        function(*words)  # type: ignore[operator]
    return str(raised.value)


def test_mallocs_come_from_the_kit_alone(store: Path) -> None:
    allocator = find_library.find_allocator("jemalloc")
    assert allocator.libraries == (store / "jemalloc@5.3.0/lib/libjemalloc.so.2",)
    assert allocator.version == "5.3.0"
    # This machine's own glibc may be another; the one that servers run on there is the kit's.
    assert find_library.find_allocator("glibc@2.36").version == "2.36"
    assert find_library.find_allocator("glibc").libraries == ()
    assert refusal(find_library.find_allocator, "tcmalloc") == (
        "allocator 'tcmalloc' is not in this kit, which has jemalloc, glibc@2.36; make another with dballoc kit make"
    )


def test_servers_files_and_sysbench_come_from_the_kit_alone(store: Path) -> None:
    closed = closed_store.open_closed_store()
    assert closed is not None
    assert closed.find_file(Path("/opt/libmine.so")) == store / "files/1/libmine.so"
    assert "file /opt/other.so is not in this kit" in refusal(
        closed.find_file, Path("/opt/other.so")
    )
    assert "server 'mysql' is not in this kit, which has mariadb;" in refusal(
        find_build.find, "mysql", None
    )
    assert "server 'mariadb in /opt' is not in this kit" in refusal(
        find_build.find, "mariadb", "/opt"
    )
    # The kit's sysbench is no sysbench here: it was tried, and the host's was not.
    assert refusal(sysbench_command.find).startswith(f"{store / MARKER['sysbench']} does not run")


def test_what_a_kit_carries_of_a_machine_takes_no_stand_ins_place(store: Path) -> None:
    assert private_store.find_requested("jemalloc", "5.3.0") is not None
    assert private_store.list_references() == {}


@pytest.mark.parametrize("path", ["jemalloc@5.3.0/lib/libjemalloc.so.2", "files/1/libmine.so"])
def test_a_damaged_malloc_is_refused(store: Path, path: str) -> None:
    (store / path).write_bytes(b"another one")
    closed = closed_store.open_closed_store()
    assert closed is not None
    find = closed.find_malloc if "jemalloc" in path else closed.find_file
    word = "jemalloc" if "jemalloc" in path else Path("/opt/libmine.so")
    assert "not the file that the kit was made with" in refusal(find, word)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2}',
        json.dumps(MARKER | {"mallocs": {"a": {"b": 1}}}),
        json.dumps(MARKER | {"sysbench": "../../bin/sh"}),
        json.dumps(MARKER | {"loaders": {"/bin/ls": "libraries/ld.so"}}),
        json.dumps(MARKER | {"servers": {"mariadb": 5}}),
        "[" * 100_000,
    ],
)
def test_a_damaged_marker_is_refused(text: str) -> None:
    assert "unpack the kit again" in refusal(closed_store.parse_marker, Path("/k"), text)


def test_the_marker_is_read_as_it_was_written() -> None:
    store = closed_store.parse_marker(Path("/k"), json.dumps(MARKER))
    assert json.loads(closed_store.format_marker(store)) == MARKER


def interpreter(store: Path) -> str | None:
    return patch_elf.read_interpreter(store / MARKER["sysbench"])  # type: ignore[operator]


def test_programs_are_relinked_once_in_each_place(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = store / str(MARKER["sysbench"])
    written = program.stat().st_mtime_ns
    closed_store.open_closed_store()
    assert interpreter(store) == str(store / "libraries/ld.so")
    assert subprocess.run([program], check=False).returncode == 7
    assert program.stat().st_mtime_ns == written
    closed_store._open.cache_clear()
    monkeypatch.setattr(
        closed_store.patch_elf, "relink", lambda *words: pytest.fail("relinked again")
    )
    closed_store.open_closed_store()
    monkeypatch.undo()
    # Moved: the old place is gone, and the programs run all the same.
    moved = store.parent.parent / "elsewhere"
    store.parent.rename(moved)
    monkeypatch.setenv("DBALLOC_STORE", str(moved / "store"))
    monkeypatch.setattr(server_users.ServerUser, "may_not_pass", lambda user, path: None)
    closed_store.open_closed_store()
    assert interpreter(moved / "store") == str(moved / "store/libraries/ld.so")
    assert subprocess.run([moved / "store" / str(MARKER["sysbench"])], check=False).returncode == 7


def test_what_a_killed_start_left_is_gone_on_with(store: Path) -> None:
    program = store / str(MARKER["sysbench"])
    program.with_name("sysbench.partial").write_bytes(b"half a program")
    closed_store.open_closed_store()
    assert interpreter(store) == str(store / "libraries/ld.so")
    assert [path.name for path in program.parent.iterdir()] == ["sysbench"]


def test_of_two_starts_at_once_one_relinks(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relink, calls = patch_elf.relink, []

    def count(*words: object) -> None:
        calls.append(words)
        relink(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(closed_store.patch_elf, "relink", count)
    threads = [
        threading.Thread(target=closed_store._open.__wrapped__, args=(store,)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(calls) == 1
    assert interpreter(store) == str(store / "libraries/ld.so")


def test_a_kit_that_others_can_change_is_refused(store: Path) -> None:
    store.chmod(0o777)
    assert "others can change this kit" in refusal(closed_store.open_closed_store)


def test_a_kit_that_servers_cannot_enter_is_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_users.ServerUser, "may_not_pass", lambda user, path: Path("/root"))
    assert "may not enter /root; move the kit to a directory that every user may enter" in refusal(
        closed_store.open_closed_store
    )


@pytest.mark.parametrize("name", ["a kit", "a:kit"])
def test_a_kit_that_nothing_can_be_preloaded_from_is_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    moved = store.parent.rename(store.parent.with_name(name)) / "store"
    monkeypatch.setenv("DBALLOC_STORE", str(moved))
    assert "LD_PRELOAD takes no path with a colon or a space; move the kit" in refusal(
        closed_store.open_closed_store
    )

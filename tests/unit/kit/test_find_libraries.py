"""The libraries of a program, found as its loader finds them."""

from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.kit.find_libraries import ElfNeeds, find_libraries, read_needs


def find_in(
    machine: Path, graph: dict[str, tuple[list[str], list[str]]], program: str, loads: list[str]
) -> dict[str, str]:
    """``graph``: what each file needs, and where it looks, by its path."""
    libraries = find_libraries(
        Path(program),
        [Path(path) for path in loads],
        lambda soname: path if (path := machine / soname).is_file() else None,
        lambda path: ElfNeeds(
            needed=tuple(graph[str(path)][0]), search=tuple(map(Path, graph[str(path)][1]))
        ),
    )
    return {soname: str(path) for soname, path in libraries.items()}


def test_a_programs_search_path_holds_for_all_that_it_loads(tmp_path: Path) -> None:
    own, machine = tmp_path / "own", tmp_path / "machine"
    for directory in (own, machine):
        directory.mkdir()
        (directory / "libc.so.6").touch()
    (own / "liba.so").touch()
    (machine / "libb.so").touch()
    graph = {
        "/p": (["liba.so"], [str(own)]),
        str(own / "liba.so"): (["libb.so", "libc.so.6"], []),
        str(own / "libc.so.6"): ([], []),
        str(machine / "libb.so"): (["libc.so.6"], []),
        "/plugin.so": (["libc.so.6", "libd.so"], [str(tmp_path / "third")]),
        str(tmp_path / "third/libd.so"): ([], []),
    }
    (tmp_path / "third").mkdir()
    (tmp_path / "third/libd.so").touch()
    assert find_in(machine, graph, "/p", ["/plugin.so"]) == {
        "liba.so": str(own / "liba.so"),
        "libc.so.6": str(own / "libc.so.6"),
        "libd.so": str(tmp_path / "third/libd.so"),
        "libb.so": str(machine / "libb.so"),
    }


def test_a_library_that_is_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"/p: needs libgone\.so, which is not on this machine"):
        find_in(tmp_path, {"/p": (["libgone.so"], [])}, "/p", [])


def test_a_library_that_is_needed_by_its_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libx.so").touch()
    with pytest.raises(UsageError, match="by its path, which a kit cannot carry"):
        find_in(tmp_path, {"/p": ([str(tmp_path / "libx.so")], [])}, "/p", [])


def test_what_a_real_program_needs_is_read_from_its_file() -> None:
    needs = read_needs(Path("/bin/ls"))
    assert "libc.so.6" in needs.needed
    assert needs.search == ()

"""Archives that somebody has made to harm: nothing is written outside their tree, and nothing but
files, directories and links.
"""

import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dballoc.fetch import fetch_one, private_store
from dballoc.fetch.clients import archive
from dballoc.fetch.unpack import archive_members, safe_extraction
from dballoc.ground.errors import Failure, UsageError

pytestmark = pytest.mark.long

Make = Callable[[tarfile.TarFile], None]
LIBRARY = "jemalloc/lib/libjemalloc.so.2"


def quiet(what: str, share: float | None) -> None:
    pass


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, with a store and what is none of an archive's business beside it."""
    monkeypatch.setenv("DBALLOC_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(os, "sync", lambda: None)  # of all that the machine has to write
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("as it was")
    (tmp_path / "outside/file").chmod(0o600)
    return tmp_path


@pytest.fixture
def library(c_library: Callable[[str, str], Path]) -> Path:
    return c_library("libjemalloc", "int mine(void) { return 1; }")


def entry(
    name: str,
    kind: bytes = tarfile.REGTYPE,
    content: bytes = b"",
    link: str = "",
    mode: int = 0o644,
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(content), link, mode
    return info, content


def tar(path: Path, *entries: tuple[tarfile.TarInfo, bytes], library: Path | None = None) -> Path:
    with tarfile.open(path, "w:gz") as made:
        if library:
            made.add(library, LIBRARY)
        for info, content in entries:
            made.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, *entries: tuple[str, bytes, int], library: Path | None = None) -> Path:
    """(name, content, mode) each; a link's content is where it leads."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        if library:
            made.write(library, LIBRARY)
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, content)
    return path


def everything(below: Path) -> dict[str, tuple[int, bytes | str]]:
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(below.rglob("*")):
        mode = path.lstat().st_mode
        content = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        )
        found[str(path.relative_to(below))] = (mode, content)
    return found


def outcome(place: Path, path: Path) -> str:
    """Fetch it; the failure's line, or nothing. Whatever it is: nothing outside, nothing in the
    store but what may be there.
    """
    outside = everything(place / "outside")
    line = ""
    try:
        kept, _ = fetch_one.fetch(
            archive.make_archive_source("jemalloc", "9.9", str(path), None), quiet
        )
    except (Failure, UsageError) as error:
        line = str(error)
    else:
        assert_harmless(kept.place)
    if line:
        assert line.isprintable(), "one line, with nothing in it that a terminal obeys"
        assert not private_store.list_fetched()
        left = [
            p
            for p in (place / "store").rglob("*")
            if p.name not in (".lock", ".partial", "downloads") and p.is_file()
        ]
        assert left == []
    assert everything(place / "outside") == outside
    assert {p.name for p in place.iterdir()} <= {"outside", "store", path.name}
    return line


def assert_harmless(root: Path) -> None:
    real = root.resolve()
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            assert not os.path.isabs(os.readlink(path))
            assert (path.parent / os.readlink(path)).resolve().is_relative_to(real)
            continue
        assert stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
        assert stat.S_IMODE(status.st_mode) in (0o755, 0o644)
        assert stat.S_ISDIR(status.st_mode) or status.st_nlink == 1
        assert status.st_uid == os.geteuid()


DEEP = "p/p/p/p/p/p/p/p"
# Links (name, where to) and then a file. UP is as many ../ as reach what is beside the store, from
# wherever it is unpacked.
OUT = {
    "file through a link": (("d", "UPoutside"), "d/file"),
    "file through an absolute link": (("d", "/OUTSIDE"), "d/file"),
    "link within a link": (
        (f"{DEEP}/top", "../../../../../../../.."),
        ("a", f"{DEEP}/top/UPoutside"),
        "a/file",
    ),
    "links one behind another": (("up", "x/.."), ("x", "."), ("top", "up/UP"), "top/outside/file"),
    "overwritten link": (("link", "UPoutside/file"), "link"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("trick", OUT)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_no_file_is_written_outside(place: Path, library: Path, kind: str, trick: str) -> None:
    path = place / ("x.tar.gz" if kind == "tar" else "x.zip")
    for up in range(1, 8):
        tars, zips = [], []
        for part in OUT[trick]:
            if isinstance(part, str):
                tars.append(entry(part, content=b"harm"))
                zips.append((part, b"harm", stat.S_IFREG | 0o644))
            else:
                aim = part[1].replace("/OUTSIDE", str(place / "outside")).replace("UP", "../" * up)
                tars.append(entry(part[0], tarfile.SYMTYPE, link=aim))
                zips.append((part[0], aim.encode(), stat.S_IFLNK | 0o777))
        outcome(
            place,
            tar(path, *tars, library=library)
            if kind == "tar"
            else zipped(path, *zips, library=library),
        )
        shutil.rmtree(place / "store")


def test_a_library_that_is_a_link_to_elsewhere_is_none(place: Path) -> None:
    """Else the file behind it would be copied into the store, readable for everybody."""
    for number, aim in enumerate(
        ("../../../../outside/file", "../" * 20 + str(place).lstrip("/") + "/outside/file")
    ):
        path = tar(place / f"x{number}.tar.gz", entry(LIBRARY, tarfile.SYMTYPE, link=aim))
        assert "no libjemalloc.so.2 or libjemalloc.so.1 in the download" in outcome(place, path)
        path.unlink()


def test_links_that_stay_inside_are_kept(place: Path, library: Path) -> None:
    path = tar(
        place / "x.tar.gz",
        entry("jemalloc/lib/a", tarfile.SYMTYPE, link="../b/../lib/./libjemalloc.so.2"),
        entry("jemalloc/b", tarfile.DIRTYPE),
        entry("out", tarfile.SYMTYPE, link="/etc/passwd"),
        entry("loop", tarfile.SYMTYPE, link="loop"),
        library=library,
    )
    archive_members.unpack_members(path, place / "t")
    assert (place / "t/jemalloc/lib/a").resolve() == place / "t" / LIBRARY
    assert not os.path.lexists(place / "t/out")
    assert not os.path.lexists(place / "t/loop")
    safe_extraction.check_tree(place / "t")


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1755, 0o7777, 0o0777, 0o0000])
def test_no_bits_of_a_mode_are_kept(place: Path, library: Path, mode: int) -> None:
    path = tar(
        place / "x.tar.gz",
        entry("jemalloc/d", tarfile.DIRTYPE, mode=mode),
        entry("jemalloc/lib/su", content=b"x", mode=mode),
        library=library,
    )
    archive_members.unpack_members(path, place / "t")
    assert stat.S_IMODE((place / "t/jemalloc/lib/su").lstat().st_mode) & 0o7022 == 0
    assert stat.S_IMODE((place / "t/jemalloc/d").lstat().st_mode) & 0o7022 == 0
    other = zipped(place / "x.zip", ("jemalloc/su", b"x", stat.S_IFREG | mode))
    archive_members.unpack_members(other, place / "z")
    assert stat.S_IMODE((place / "z/jemalloc/su").lstat().st_mode) & 0o7022 == 0
    other.unlink()
    shutil.rmtree(place / "t"), shutil.rmtree(place / "z")
    library.chmod(0o4755)
    path = tar(path, library=library)
    assert outcome(place, path) == ""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (entry("x/null", tarfile.CHRTYPE), "x/null is neither file nor directory nor link"),
        (entry("x/disk", tarfile.BLKTYPE), "x/disk is neither file nor directory nor link"),
        (entry("x/pipe", tarfile.FIFOTYPE), "x/pipe is neither file nor directory nor link"),
        (entry("x/what", b"Z"), "x/what is neither file nor directory nor link"),
        (entry("x/hard", tarfile.LNKTYPE, link="/etc/passwd"), "/etc/passwd is an absolute path"),
        (
            entry("x/hard", tarfile.LNKTYPE, link="../../outside/file"),
            "../../outside/file leads out of the archive",
        ),
        (
            entry("x/hard", tarfile.LNKTYPE, link="x/later"),
            "x/hard is a hard link to no earlier file of the archive",
        ),
        (entry("/x/abs", content=b"x"), "/x/abs is an absolute path"),
        (entry("x/../../up", content=b"x"), "x/../../up leads out of the archive"),
        (
            entry("jemalloc/lib", content=b"x"),
            "jemalloc/lib is there twice, once as a directory",
        ),
        (
            entry(f"{LIBRARY}/x", content=b"x"),
            f"{LIBRARY}/x lies below something that is not a directory",
        ),
        (entry("x/\x1b[31mred", content=b"x"), r"it has a member called 'x/\x1b[31mred'"),
        (entry("x/\u202ecod", content=b"x"), r"it has a member called 'x/\u202ecod'"),
        (entry("x/a\nb", content=b"x"), r"it has a member called 'x/a\nb'"),
        (entry("x/\udcff", content=b"x"), r"it has a member called 'x/\udcff'"),
        (entry("y" * 300, content=b"x"), f"a path is too long: {'y' * 80}…"),
        (entry("y/" * 150 + "z", content=b"x"), "a path is too long: y/y/"),
    ],
)
def test_what_no_archive_needs_is_refused(
    place: Path, library: Path, kind: tuple[tarfile.TarInfo, bytes], words: str
) -> None:
    line = outcome(place, tar(place / "x.tar.gz", kind, library=library))
    assert line.startswith(f"jemalloc@9.9: x.tar.gz cannot be unpacked: {words}"), line


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("x/pipe", stat.S_IFIFO | 0o644, "x/pipe is neither file nor directory nor link"),
        ("x/null", stat.S_IFCHR | 0o644, "x/null is neither file nor directory nor link"),
        ("/x/abs", 0o644, "/x/abs is an absolute path"),
        ("../up", 0o644, "../up leads out of the archive"),
        ("a\x1b[1m", 0o644, r"it has a member called 'a\x1b[1m'"),
        (f"{LIBRARY}/x", 0o644, f"{LIBRARY}/x lies below something that is not a directory"),
    ],
)
def test_what_no_zip_needs_is_refused(
    place: Path, library: Path, name: str, mode: int, words: str
) -> None:
    line = outcome(place, zipped(place / "x.zip", (name, b"x", mode), library=library))
    assert line == f"jemalloc@9.9: x.zip cannot be unpacked: {words}"


def test_a_name_with_a_nul(place: Path, library: Path) -> None:
    info, content = entry("short", content=b"x")
    info.pax_headers = {"path": "x/a\0b"}
    path = place / "x.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as made:
        made.add(library, LIBRARY)
        made.addfile(info, io.BytesIO(content))
    assert r"it has a member called 'x/a\x00b'" in outcome(place, path)


@pytest.fixture(scope="module")
def ten_gigabytes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 GB of zeros as a gzip of 10 MB: one of 100 MB, so often."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.tar.gz"
    info = tarfile.TarInfo("jemalloc/big")
    info.size = 10 * 10**9 // 512 * 512
    member = gzip.compress(bytes(info.size // 100 // 512 * 512), 9)
    with path.open("wb") as file:
        file.write(gzip.compress(info.tobuf()))
        for _ in range(101):
            file.write(member)
    return path


def used(below: Path) -> int:
    return sum(p.lstat().st_blocks * 512 for p in below.rglob("*"))


def test_a_bomb_of_a_declared_size_writes_nothing(place: Path, ten_gigabytes: Path) -> None:
    path = place / "bomb.tar.gz"
    path.symlink_to(ten_gigabytes)
    with pytest.raises(
        safe_extraction.UnsafeArchive, match=r"it would expand to more than [\d,]+ MB"
    ):
        archive_members.unpack_members(path, place / "t")
    assert used(place / "t") < 10**6


@pytest.mark.parametrize("form", ["many files", "zip", "one zip member often", "headers"])
def test_a_bomb_that_is_not_declared_stops(place: Path, form: str) -> None:
    """The sum counts, whatever each says of itself."""
    content = bytes(2**20)
    path = place / ("x.tar.gz" if form in ("many files", "headers") else "x.zip")
    if form == "many files":
        tar(path, *(entry(f"f{n}", content=content) for n in range(100)))
    elif form == "headers":  # each names one member and another's path
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as made:
            for n in range(1000):
                info = entry(f"f{n}")[0]
                info.pax_headers = {
                    "comment": "x" * 15_000,
                    "path": "p" * 200 + "/" + "q" * 200 + f"/{n}",
                    "size": str(2**20),
                }
                made.addfile(info, io.BytesIO(content))
    else:
        zipped(path, *((f"f{n}", content, 0o644) for n in range(100)))
    if form == "one zip member often":
        # Every entry of the directory leads to the first member's bytes.
        raw = bytearray(path.read_bytes())
        at = raw.find(b"PK\x01\x02")
        while at != -1:
            raw[at + 42 : at + 46] = bytes(4)
            at = raw.find(b"PK\x01\x02", at + 46)
        path.write_bytes(raw)
    with pytest.raises(safe_extraction.UnsafeArchive):
        archive_members.unpack_members(path, place / "t")
    assert used(place / "t") <= safe_extraction.FLOOR + 2**22


def test_a_zip_that_says_less_than_it_has(place: Path) -> None:
    path = zipped(place / "x.zip", ("f", bytes(2**27), 0o644))
    raw = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = raw.find(signature)
        raw[at + offset : at + offset + 4] = (1000).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(safe_extraction.UnsafeArchive, match="CRC"):
        archive_members.unpack_members(path, place / "t")
    assert used(place / "t") < 2**20


def test_a_million_members(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer are taken here, so that it does not take a minute."""
    monkeypatch.setattr(safe_extraction, "MEMBERS", 10_000)
    path = place / "x.tar.gz"
    block = b"".join(entry(f"d/{n}", tarfile.DIRTYPE)[0].tobuf() for n in range(1000))
    with gzip.open(path, "wb", 1) as file:
        for _ in range(1000):
            file.write(block)
    tracemalloc.start()
    with pytest.raises(safe_extraction.UnsafeArchive, match=r"it has more than 10,000 members"):
        archive_members.unpack_members(path, place / "t")
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    assert len(list((place / "t/d").iterdir())) <= 10_000
    tracemalloc.stop()


def test_a_zip_of_a_million_members(place: Path) -> None:
    path = place / "x.zip"
    raw = bytearray(zipped(place / "one.zip", ("f", b"", 0o644)).read_bytes())
    (place / "one.zip").unlink()
    start, end = raw.find(b"PK\x01\x02"), raw.find(b"PK\x05\x06")
    directory = bytes(raw[start:end]) * 1_000_000
    raw[end + 8 : end + 12] = b"\xff\xff" * 2
    raw[end + 12 : end + 16] = len(directory).to_bytes(4, "little")
    path.write_bytes(bytes(raw[:start]) + directory + bytes(raw[end:]))
    tracemalloc.start()
    with pytest.raises(safe_extraction.UnsafeArchive, match="too many members"):
        archive_members.unpack_members(path, place / "t")
    assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.GNUTYPE_SPARSE,
    ],
)
def test_a_header_that_would_fill_the_memory(place: Path, kind: bytes) -> None:
    path = place / "x.tar.gz"
    info = entry("x", kind)[0]
    info.size = 2**26
    with gzip.open(path, "wb", 1) as file:
        file.write(info.tobuf() + bytes(2**26))
    tracemalloc.start()
    with pytest.raises(safe_extraction.UnsafeArchive):
        archive_members.unpack_members(path, place / "t")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_an_xz_that_wants_gigabytes_of_memory(place: Path) -> None:
    path = place / "x.tar.xz"
    filters = [
        {
            "id": lzma.FILTER_LZMA2,
            "dict_size": 1536 * 2**20 - 1,
            "mode": lzma.MODE_FAST,
            "mf": lzma.MF_HC3,
            "depth": 1,
        }
    ]
    try:
        path.write_bytes(lzma.compress(bytes(2**10), lzma.FORMAT_XZ, filters=filters))
    except MemoryError:
        pytest.skip("no memory here to make one")
    with pytest.raises(safe_extraction.UnsafeArchive, match=r"[Mm]emory"):
        archive_members.unpack_members(path, place / "t")


def compressed(data: bytes, form: str) -> bytes:
    if form == "zst":
        return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout
    return {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[form](data)


@pytest.mark.parametrize("form", ["gz", "xz", "bz2", "zst"])
def test_every_compression_is_read_and_its_breaks_are_one_line(
    place: Path, library: Path, form: str
) -> None:
    if form == "zst" and shutil.which("zstd") is None:
        pytest.skip("needs zstd")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as made:
        made.add(library, LIBRARY)
        made.addfile(*((i := entry("ballast", content=os.urandom(300_000)))[0], io.BytesIO(i[1])))
    packed = compressed(plain.getvalue(), form)
    path = place / f"x.tar.{form}"
    for broken in (
        packed[: len(packed) // 2],
        b"nonsense" * 100,
        b"",
        packed[:200] + bytes(100) + packed[300:],
    ):
        path.write_bytes(broken)
        assert outcome(place, path).startswith(f"jemalloc@9.9: x.tar.{form} cannot be unpacked: ")
    path.write_bytes(packed)
    assert outcome(place, path) == ""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], None]], Path]:
    """A .deb with what is made in its tree."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb")

    def make(fill: Callable[[Path], None]) -> Path:
        home = tmp_path_factory.mktemp("deb")
        (home / "t/DEBIAN").mkdir(parents=True)
        (home / "t/DEBIAN/control").write_text(
            "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
        )
        fill(home / "t")
        subprocess.run(
            ["dpkg-deb", "--build", "--root-owner-group", "t", "x.deb"],
            cwd=home,
            check=True,
            capture_output=True,
        )
        return home / "x.deb"

    return make


def test_a_package(
    place: Path, library: Path, package: Callable[[Callable[[Path], None]], Path]
) -> None:
    """Absolute links are meant within it; its set-user-ID program is a program; what another one's
    links say does not lead out.
    """

    def first(top: Path) -> None:
        (top / "usr/lib").mkdir(parents=True)
        shutil.copy(library, top / "usr/lib/libjemalloc.so.2")
        (top / "usr/lib/su").write_bytes(b"x")
        (top / "usr/lib/su").chmod(0o4755)
        (top / "absolute").symlink_to("/usr/lib/libjemalloc.so.2")
        (top / "lib").symlink_to("usr/lib")
        (top / "out").symlink_to("../" * 30 + str(place / "outside").lstrip("/"))

    def second(top: Path) -> None:
        (top / "out").mkdir()
        (top / "out/file").write_text("harm")
        (top / "lib").mkdir()
        (top / "lib/more").write_text("x")

    outside = everything(place / "outside")
    for fill in (first, second):
        archive_members.unpack_members(package(fill), place / "t")
    assert everything(place / "outside") == outside
    safe_extraction.secure_tree(place / "t")
    assert_harmless(place / "t")
    assert (place / "t/absolute").resolve() == place / "t/usr/lib/libjemalloc.so.2"
    assert (place / "t/usr/lib/more").exists(), (
        "a link of the first package that stays inside leads the second's file"
    )
    shutil.rmtree(place / "t")
    shutil.copy(package(first), place / "x.deb")
    assert outcome(place, place / "x.deb") == ""


@pytest.fixture
def bad_trees(place: Path) -> dict[str, Callable[[Path], object]]:
    return {
        "pipe is neither file": lambda top: os.mkfifo(top / "pipe"),
        "hard is a hard link to a file elsewhere": lambda top: os.link(
            place / "outside/file", top / "hard"
        ),
        "up is a link that leads out": lambda top: (top / "up").symlink_to("../outside"),
        "absolute is a link that leads out": lambda top: (top / "absolute").symlink_to(str(top)),
        "b is a link that leads out": lambda top: (
            (top / "a").symlink_to("."),
            (top / "b").symlink_to("a/.."),
        ),
    }


def test_the_last_look_refuses_what_a_build_may_leave(
    place: Path, bad_trees: dict[str, Callable[[Path], object]]
) -> None:
    outside = everything(place / "outside")
    for number, (words, fill) in enumerate(bad_trees.items()):
        top = place / f"tree{number}"
        top.mkdir()
        fill(top)
        with pytest.raises(safe_extraction.UnsafeArchive, match=words):
            safe_extraction.secure_tree(top)
    assert everything(place / "outside") == outside


BASE = io.BytesIO()
with tarfile.open(fileobj=BASE, mode="w") as _made:
    for _entry in (
        entry("a/b", content=b"x" * 700),
        entry("a/l", tarfile.SYMTYPE, link="b"),
        entry("a/h", tarfile.LNKTYPE, link="a/b"),
        entry("long" * 40 + "/x", content=b"y"),
        entry("ü" * 60, content=b"z"),
        entry("d", tarfile.DIRTYPE),
    ):
        _made.addfile(_entry[0], io.BytesIO(_entry[1]))


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".zip"]),
    st.lists(st.tuples(st.integers(0, len(BASE.getvalue()) - 1), st.binary(min_size=1, max_size=12)), max_size=6),
    st.integers(0, 20_000), st.booleans(),
)  # fmt: skip
@example(".zip", [(0, b"x")], 40, True)
def test_broken_bytes_are_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    changes: list[tuple[int, bytes]],
    length: int,
    inner: bool,
) -> None:
    """Of the tar within, or of what is around it."""
    home = tmp_path_factory.mktemp("fuzz")
    raw = bytearray(BASE.getvalue())

    def change() -> None:
        for at, data in changes:
            raw[at % max(1, len(raw)) : at % max(1, len(raw)) + len(data)] = data

    if inner:
        change()
        del raw[length:]
    if suffix == ".zip":
        raw = bytearray(
            zipped(
                home / "made.zip", ("a/b", bytes(raw), 0o644), ("a/l", b"b", stat.S_IFLNK | 0o777)
            ).read_bytes()
        )
    elif suffix != ".tar":
        raw = bytearray(compressed(bytes(raw), suffix.rpartition(".")[2]))
    if not inner:
        change()
        del raw[length:]
    path = home / f"x{suffix}"
    path.write_bytes(raw)
    words = "unpacked"
    try:
        archive_members.unpack_members(path, home / "t")
        safe_extraction.secure_tree(home / "t")
    except safe_extraction.UnsafeArchive as error:
        words = str(error)
    assert words
    assert words.isprintable()
    if (home / "t").exists():
        safe_extraction.remove_links_out(home / "t")
        safe_extraction.secure_tree(home / "t")
        assert_harmless_with_links(home / "t")
    assert {p.name for p in home.iterdir()} <= {"made.zip", "t", path.name}
    shutil.rmtree(home)


def assert_harmless_with_links(root: Path) -> None:
    for path in root.rglob("*"):
        status = path.lstat()
        assert (
            stat.S_ISDIR(status.st_mode)
            or stat.S_ISREG(status.st_mode)
            or stat.S_ISLNK(status.st_mode)
        )
        if not stat.S_ISLNK(status.st_mode):
            assert stat.S_IMODE(status.st_mode) in (0o755, 0o644)

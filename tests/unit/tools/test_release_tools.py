"""What makes a release: the workflow that publishes it, and the root that it is compiled in."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
NEWER = "[signed-by=/usr/share/keyrings/debian-archive-newer.gpg]"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def split_jobs(workflow: str) -> dict[str, str]:
    """The text of each job by its name."""
    jobs = workflow.partition("\njobs:\n")[2]
    parts = re.split(r"^  (\w+):\n", jobs, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [action for action in used if not pinned.fullmatch(action)] == []


def test_nothing_is_published_that_was_not_tested() -> None:
    jobs = split_jobs((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert set(jobs) == {"test", "build", "publish"}
    assert ".ci/run" in jobs["test"]
    assert "needs: [test, build]" in jobs["publish"]
    assert [name for name, text in jobs.items() if "gh release" in text or "pypi" in text] == [
        "publish"
    ]


def write_program(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_root_that_is_compiled_in_has_security_updates(tmp_path: Path) -> None:
    """With programs in the place of those that need root and a mirror."""
    if not KEYRING.exists():
        pytest.skip("Debian's keys are not on this machine: package debian-archive-keyring")
    programs, root = tmp_path / "programs", tmp_path / "root"
    programs.mkdir()
    write_program(programs, "id", "echo 0")
    write_program(
        programs,
        "debootstrap",
        'mkdir -p "$3/etc/apt/sources.list.d" "$3/usr/share/keyrings"\n'
        'echo "deb http://mirror.example/debian $2 main" >"$3/etc/apt/sources.list"',
    )
    write_program(programs, "chroot", f'printf "%s\\n" "$*" >"{tmp_path}/commands"')
    subprocess.run(
        [ROOT / "tools/release/make-root", root],
        env={"PATH": f"{programs}:{os.environ['PATH']}"},
        check=True,
    )
    [sources] = (root / "etc/apt/sources.list.d").iterdir()
    assert sources.read_text().splitlines() == [
        "deb http://mirror.example/debian-security bullseye-security main",
        f"deb-src {NEWER} http://mirror.example/debian bookworm main",
        f"deb-src {NEWER} http://mirror.example/debian-security bookworm-security main",
    ]
    commands = (tmp_path / "commands").read_text()
    assert commands.index("apt-get update") < commands.index("apt-get upgrade")
    assert commands.index("apt-get upgrade") < commands.index("apt-get install")


@pytest.mark.parametrize("reason", ["remove", "purge", "upgrade"])
def test_the_package_takes_its_cache_with_it_and_nobody_elses(reason: str, tmp_path: Path) -> None:
    postrm, cache = ROOT / "tools/release/postrm", tmp_path / "var/cache/dballoc"

    def remove() -> list[str]:
        environ = {"PATH": os.environ["PATH"], "DPKG_ROOT": str(tmp_path)}
        subprocess.run(["sh", postrm, reason], env=environ, check=True)
        return sorted(str(path.relative_to(cache.parent)) for path in cache.parent.rglob("*"))

    cache.parent.mkdir(parents=True)
    assert remove() == []
    for name in ("symbols", "scratch"):
        (cache / name).mkdir(parents=True)
    (cache / "symbols/a.symcache").touch()
    everything = ["dballoc", "dballoc/scratch", "dballoc/symbols", "dballoc/symbols/a.symcache"]
    assert remove() == (everything if reason == "upgrade" else [])
    # A campaign of another installation.
    (cache / "scratch/t0123").mkdir(parents=True, exist_ok=True)
    (cache / "templates").mkdir()
    assert {"dballoc/scratch/t0123", "dballoc/templates"} <= set(remove())


# In the place of unshare: the step's own commands, with /build below the root. $root: of make-python.
UNSHARE = """
for step; do :; done
exec sh -euc "$(printf %s "$step" | sed "s|/build|$ROOT/build|g")"
"""
# The mirror names two versions of each source, and has what FILES says.
APT_CACHE = 'echo "Version: 3.9.9"\necho "Version: 3.10.1"'
APT_GET = 'for word; do :; done\ncase " $FILES " in *" $word "*) mkdir "${word%%=*}-1" ;; *) exit 100 ;; esac'
BUILT = "openssl-configured openssl openssl-installed sqlite configured python modules".split()
ALL = "openssl=3.10.1 openssl=3.9.9 sqlite3=3.10.1 python3.11=3.10.1"


def make_python(root: Path, files: str, **variables: str) -> tuple[int, str]:
    """Run make-python where all but the sources is there; its exit status, and what it says."""
    programs = root.parent / "programs"
    programs.mkdir(exist_ok=True)
    write_program(programs, "unshare", UNSHARE)
    write_program(programs, "apt-cache", APT_CACHE)
    write_program(programs, "apt-get", APT_GET)
    (root / "build").mkdir(parents=True, exist_ok=True)
    for step in BUILT:
        (root / f"build/.{step}").touch()
    done = subprocess.run(
        [ROOT / "tools/release/make-python", root],
        env={"PATH": f"{programs}:{os.environ['PATH']}", "ROOT": str(root), "FILES": files, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_release_takes_the_newest_sources_or_fails(tmp_path: Path) -> None:
    root = tmp_path / "root"
    status, said = make_python(root, ALL.removeprefix("openssl=3.10.1"))
    assert status == 1
    assert "The mirror names openssl 3.10.1 but does not have it" in said
    assert make_python(root, ALL) == (0, "")


def test_a_kit_takes_the_newest_sources_that_there_are_and_says_which(tmp_path: Path) -> None:
    root, files = tmp_path / "root", ALL.removeprefix("openssl=3.10.1")
    said = "make-python: openssl 3.9.9 is built; 3.10.1 is the newest: not for a release\n"
    assert make_python(root, files, DBALLOC_OLDER_SOURCES="1") == (0, said)
    # Nothing is built any more, and still it is said, and no release is made of it.
    assert make_python(root, ALL, DBALLOC_OLDER_SOURCES="1") == (0, said)
    assert make_python(root, ALL) == (
        1, f"{said}make-python: remove {root} and build again, so that the newest is looked for\n",
    )  # fmt: skip

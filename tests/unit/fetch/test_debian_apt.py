"""apt for Debian's suites: which mirror, which configuration, what it prints."""

from pathlib import Path

import pytest

from dballoc.fetch.clients import debian_apt
from dballoc.ground.errors import UsageError

DEB822 = """Types: deb
# a comment with URIs: in it
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (DEB822, ["http://mirror.example/debian"]),
        ("deb http://a.example/debian trixie main contrib\n", ["http://a.example/debian"]),
        (
            "deb [signed-by=/k.gpg arch=amd64] https://b.example/d sid main\n",
            ["https://b.example/d"],
        ),
        ("deb cdrom:[Debian 12]/ bookworm main\n", []),
        (
            "# deb http://a.example/debian trixie main\ndeb-src http://a.example/debian trixie main\n",
            [],
        ),
        ("deb http://security.example/debian-security trixie-security main\n", []),
        (
            "deb https://other.example/apt bookworm stable\n",
            [],
        ),  # another's, with components of its own
        ("deb http://archive.example/ubuntu noble main universe\n", []),
        (
            "Types: deb\nURIs: http://c.example/debian\nSuites: trixie\nComponents: main\nEnabled: no\n",
            [],
        ),
        ("", []),
    ],
)
def test_the_mirror_is_the_one_of_apts_own_sources(text: str, found: list[str]) -> None:
    assert debian_apt.parse_mirrors(text) == found


def test_the_mirror_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(debian_apt.MIRROR, "http://mine.example/debian")
    assert debian_apt.choose_mirror() == "http://mine.example/debian"


def test_no_mirror_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(debian_apt.MIRROR, raising=False)
    monkeypatch.setattr(debian_apt, "parse_mirrors", lambda text: [])
    with pytest.raises(
        UsageError,
        match="apt's sources name no mirror of Debian; set DBALLOC_DEBIAN_MIRROR=URL",
    ):
        debian_apt.choose_mirror()


DUMP = """APT "";
APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb || true";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::Languages:: "none";
Dir::State "var/lib/apt";
"""


def test_of_the_machines_configuration_only_the_way_to_the_mirrors_is_taken() -> None:
    text = debian_apt.format_configuration(
        DUMP, Path("/s/apt"), Path("/s/sources.list"), Path("/s/archives")
    )
    lines = text.splitlines()
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in lines
    assert "Post-Invoke" not in text
    assert 'Dir::State "/s/apt/state";' in lines
    assert 'Dir::State "var/lib/apt";' not in lines
    assert 'Dir::State::status "/dev/null";' in lines


URIS = """Reading package lists...
'http://m.example/debian/pool/main/j/jemalloc/libjemalloc2_5.2.1-3_amd64.deb' libjemalloc2_5.2.1-3_amd64.deb 265668 SHA256:ab
'http://m.example/debian/pool/main/m/mariadb_11.8.6-1_amd64.deb' mariadb-server-core_1%3a11.8.6-1_amd64.deb 9 SHA256:cd
"""


def test_what_apt_would_download() -> None:
    found = debian_apt.parse_uris(URIS)
    assert [(name, size) for _, name, size in found] == [
        ("libjemalloc2_5.2.1-3_amd64.deb", 265668),
        ("mariadb-server-core_1%3a11.8.6-1_amd64.deb", 9),
    ]


@pytest.mark.parametrize(
    ("file", "package", "version"),
    [
        ("libjemalloc2_5.2.1-3_amd64.deb", "libjemalloc2", "5.2.1"),
        ("mariadb-server-core_1%3a11.8.6-0+deb13u1_amd64.deb", "mariadb-server-core", "11.8.6"),
        ("libmimalloc3_3.0.1+ds-2_amd64.deb", "libmimalloc3", "3.0.1"),
        ("libc6_2.41-12+deb13u1_amd64.deb", "libc6", "2.41"),
        ("libclang-rt-22-dev_1%3a22.1.0~rc1-1_amd64.deb", "libclang-rt-22-dev", "22.1.0"),
    ],
)
def test_the_upstreams_version(file: str, package: str, version: str) -> None:
    assert (
        debian_apt.parse_upstream_version([Path("/a/other_1_all.deb"), Path("/a") / file], package)
        == version
    )


def test_the_version_of_a_source_package() -> None:
    assert debian_apt.parse_upstream_version([Path("musl_1.2.5-3.dsc")], "musl") == "1.2.5"

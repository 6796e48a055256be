"""Secrets of a running server: nothing that dballoc starts, keeps or prints has one, whatever it
looks at the server for.
"""

import gzip
import re
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import (
    A_USER,
    SMALL_CAMPAIGN,
    Cli,
    Launch,
    answers,
    ask,
    give,
    processes_of,
    rows,
    run_as,
)

from dballoc.servers import build as find_build

pytestmark = pytest.mark.unprivileged

CANARY = "CaNaRy7f3e91"

NAMES = (
    "loose-s3-secret-key",
    "loose_s3_access_key",
    "loose-s3-host-name",
    "loose-spider-remote-password",
    "LOOSE_X_TOKEN",
    "loose-x-tok",
    "loose-plugin-y-secret",
    "loose-hashicorp-key-management-token",
    "loose-otlp-headers",
    "loose-wsrep_sst_auth",
    "report-passw",
    "loose-federated-dsn",
    "loose-connect-java-wrapper",
)
SMALL = ("--allocators", "glibc", *SMALL_CAMPAIGN, "--repeat-noisy", "0")


@dataclass(frozen=True)
class Target:
    pid: int
    home: Path

    @property
    def option_file(self) -> Path:
        """What it was started with."""
        return self.home / "my.cnf"


@pytest.fixture(scope="module")
def target(server_home: Path, launch: Launch) -> Target:
    """A server with secrets in its option file, its arguments and its environment; anybody may
    connect.
    """
    home = server_home
    secrets = "".join(f"{name}={CANARY}\n" for name in NAMES)
    (home / "my.cnf").write_text(
        f"[mysqld]\ndatadir={home}/data\nsocket={home}/s.sock\npid-file={home}/s.pid\nskip-networking\nskip-grant-tables\n"
        f"sort_buffer_size=1M\nplugin_maturity=unknown\n{secrets}"
        f"init-connect=SET @x = '{CANARY}'\nloose-fetcher=http://jane:{CANARY}@db7:3128/\nloose-source=host=db7;password={CANARY}\n"
    )
    give(A_USER, home, *home.iterdir())
    command = [
        find_build.find("mariadb", None).executable,
        f"--defaults-file={home}/my.cnf",
        "--innodb-buffer-pool-size=16M",
        f"--loose-s3-session-token={CANARY}",
        f"--report-password={CANARY}",
    ]
    env = {
        "MALLOC_ARENA_MAX": "2",
        "X_API_TOKEN": CANARY,
        "http_proxy": f"http://u:{CANARY}@h/",
        "MALLOC_SECRET_": CANARY,
    }
    process = launch(
        command,
        home,
        env,
        ready=lambda: answers(home / "s.sock", "SELECT 1", user="root"),
        **run_as(A_USER),
    )
    assert ask(home / "s.sock", "SELECT @@report_password", user="root") == [(CANARY,)]
    return Target(process.pid, home)


class Watch:
    """The command lines of all processes of a home, as often as can be looked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.words: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.words |= set(processes_of(self.home).values())

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def holders(*places: Path) -> list[str]:
    """The files that have the secret in them, compressed ones too."""
    files = [
        path
        for place in places
        for path in ([place] if place.is_file() else place.rglob("*"))
        if path.is_file()
    ]
    assert files
    return [
        str(path)
        for path in files
        if CANARY.encode()
        in (gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes())
    ]


def test_a_printed_plan_has_none(run_cli: Cli, target: Target) -> None:
    with Watch(run_cli.home) as watch:
        printed = run_cli("bench", "--like", str(target.pid), *SMALL, "--print")
        planned = run_cli("bench", "--like", str(target.pid), *SMALL, "--dry-run")
    assert (printed.status, planned.status) == (0, 0), printed.text + planned.text
    assert CANARY not in printed.text + planned.text + "\n".join(watch.words)
    assert 'sort_buffer_size = "1M"' in printed.stdout
    [said] = [line for line in printed.stderr.splitlines() if "left out (secrets)" in line]
    for name in (
        "loose_s3_secret_key",
        "loose_s3_access_key",
        "loose_x_token",
        "report_passw",
        "report_password",
        "loose_fetcher",
    ):
        assert re.search(rf"\b{name}\b", said), said
    assert "loose_federated_dsn" in printed.stderr
    assert (
        "left out (engines and plugins that talk to other hosts): loose_connect_java_wrapper"
        in printed.stderr
    )


def test_an_option_file_gives_none(run_cli: Cli, target: Target) -> None:
    printed = run_cli("bench", "--defaults-file", target.option_file, *SMALL, "--print")
    assert printed.status == 0, printed.text
    assert CANARY not in printed.text
    assert "left out (secrets): loose_s3_secret_key" in printed.stderr


def test_a_campaign_keeps_none(run_cli: Cli, target: Target, out: Path) -> None:
    with Watch(run_cli.home) as watch:
        done = run_cli(
            "bench",
            "--like",
            str(target.pid),
            "--defaults-file",
            target.option_file,
            *SMALL,
            "--out",
            out,
        )
    assert done.status == 0, done.text
    assert {row["outcome"] for row in rows(out, "SELECT outcome FROM trial")} == {"ok"}
    assert any(
        "--datadir=" in words and "--sort-buffer-size=1M" in words for words in watch.words
    ), "no server was seen"
    report = run_cli("report", out, "--redact", "--out", out.parent / "report")
    assert report.status == 0, report.text
    assert CANARY not in done.text + report.text + "\n".join(watch.words)
    assert holders(out, out.parent / "report", run_cli.home / "cache") == []


def test_explain_says_and_keeps_none(run_cli: Cli, target: Target, out: Path) -> None:
    out.mkdir()
    look = ("explain", "--pid", str(target.pid), "--procedure")
    forms = [
        run_cli(*look),
        run_cli(*look, "--json"),
        run_cli(*look[:-1], "--openmetrics"),
        run_cli(*look[:-1], "--html", out / "e.html"),
        run_cli(*look[:-1], "--save", out / "e.json"),
    ]
    assert [done.status for done in forms] == [0] * 5, forms
    assert "sort_buffer_size" in forms[0].stdout
    assert not [done for done in forms if CANARY in done.text]
    assert holders(out) == []


@pytest.mark.parametrize(
    "name", ["loose_s3_secret_key", "LOOSE-X-TOKEN", "report-passw", "loose-spider-remote-host"]
)
def test_ones_own_word_is_refused_before_anything_starts(
    run_cli: Cli, out: Path, name: str
) -> None:
    for how in ("--print", "--dry-run"):
        done = run_cli("bench", "--option", f"{name}={CANARY}", how, "--out", out)
        assert (done.status, done.stdout) == (2, "")
        assert re.fullmatch(
            rf"dballoc: command line: option '{name}' is one for secrets or for other hosts; it would appear in the server's "
            r"command line and in the results, and a private server does not need it: remove it\n",
            done.stderr,
        ), done.stderr
    assert not out.exists()

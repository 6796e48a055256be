"""A real campaign, as small as can be, and a headless Chromium that reads its report."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Two workloads, two levels, one variant that works beside the baseline, and one whose server
# refuses to start and writes what it was given into its log.
EXPERIMENT = """
name = "browser"
baseline = "glibc"
workloads = ["oltp_read_only", "oltp_point_select"]
threads = [1, 4]
design = "both"
blocks = 2
[server]
options = { innodb_buffer_pool_size = "32M" }
[data]
tables = 1
rows = 1000
[time]
warmup = "0s"
level = "2s"
idle = "1s"
[duet]
slice = "1s"
pairs = 1
[noise]
repeats = 0
[[variant]]
name = "glibc"
[[variant]]
name = "glibc-arena1"
env = { MALLOC_ARENA_MAX = "1" }
[[variant]]
name = "refuses"
server = { options = { default_storage_engine = "<script>alert('out')</script>" } }
"""

_QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-gpu",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    """The system's Chromium with a profile of its own. Skips where there is none."""
    executable = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if executable is None:
        pytest.skip("THE REPORT IS NOT LOOKED AT: no Chromium here; apt-get install chromium")
    api = pytest.importorskip(
        "playwright.sync_api", reason="THE REPORT IS NOT LOOKED AT: no Playwright here; make setup"
    )
    with api.sync_playwright() as playwright:
        # Its sandbox needs a user that is not root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=executable, args=[*_QUIET, *sandbox])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_path(chromium: "Browser", package_path: Path) -> Iterator[Path]:
    """``report.html`` of a campaign with real servers, run by the command itself."""
    missing = [
        p
        for p in ("mariadbd", "sysbench")
        if not shutil.which(p, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    ]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}: run make setup")
    # A short path that the server's user may pass: sockets lie below it.
    home = Path(tempfile.mkdtemp(prefix="dbt-", dir="/tmp"))
    home.chmod(0o755)
    (home / "tmp").mkdir()
    (home / "browser.toml").write_text(EXPERIMENT, encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(package_path), os.environ.get("PYTHONPATH")]))
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "DBALLOC_CACHE": str(home / "cache"),
        "TMPDIR": str(home / "tmp"),
    }
    command = [
        sys.executable,
        "-m",
        "dballoc",
        "bench",
        home / "browser.toml",
        "--out",
        home / "results",
    ]
    done = subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield home / "results" / "report.html"
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where they are kept: DBALLOC_SCREENSHOTS, or pytest's own place."""
    chosen = os.environ.get("DBALLOC_SCREENSHOTS")
    path = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path

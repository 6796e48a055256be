"""A headless Chromium, and the report that it reads."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dballoc.experiment.model import Experiment
from dballoc.questions.write_report import write_report_outputs

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

import example_results

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``report.html`` of two workloads, two levels and both designs: one variant that works beside
    the baseline, and one whose server failed and left HTML in its log.
    """
    chosen = Experiment.model_validate(
        {
            "baseline": "glibc",
            "workloads": ["oltp_read_only", "oltp_point_select"],
            "threads": [1, 4],
            "design": "both",
            "time": {"warmup": "2s", "level": "3s", "idle": "2s"},
            "variant": [{"name": name} for name in ("glibc", "jemalloc", "tuned")],
        }
    )
    place = tmp_path_factory.mktemp("report")
    directory = example_results.build(place / "results", chosen, 6, (), ("tuned",))
    write_report_outputs(directory)
    return directory / "report.html"


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where they are kept: DBALLOC_SCREENSHOTS, or pytest's own place."""
    chosen = os.environ.get("DBALLOC_SCREENSHOTS")
    path = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path

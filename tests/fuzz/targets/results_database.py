"""results.sqlite: whatever a results directory holds is tables, or refused."""

import tempfile
from functools import cache
from pathlib import Path

from example_results import build

from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import read_results
from dballoc.store.open_database import FILE

OF = (
    "dballoc.store.open_database",
    "dballoc.store.column_types",
    "dballoc.store.facts",
    "dballoc.questions.compare.results_consistency",
)
PRIVILEGED = False


@cache
def make_results() -> bytes:
    """Return the results of two blocks, of both designs."""
    chosen = Experiment.model_validate(
        {
            "name": "small",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [1],
            "design": "both",
            "time": {"warmup": "0s", "level": "2s", "idle": "1s"},
            "variant": [{"name": "glibc"}, {"name": "tuned"}],
        }
    )
    with tempfile.TemporaryDirectory() as home:
        return (build(Path(home) / "r", chosen, 2, (), ()) / FILE).read_bytes()


def seeds() -> list[bytes]:
    return [make_results()]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / FILE).write_bytes(data)
        try:
            campaign = read_results(Path(home))
        except (UsageError, Failure) as error:
            assert "\n" not in str(error), error
            return
        if campaign.trials.height:
            compare_with_baseline(campaign)

"""Every fuzz target (tests/fuzz), for a moment: valid inputs are read, changed ones are read or
refused as the reader says.
"""

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

from catalogue import LONG, SHORT, names, target
from mutate import mutated

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", names())
def test_valid_inputs_are_no_findings(name: str) -> None:
    one = target(name)
    assert one.seeds()
    assert one.seconds in (LONG, SHORT)
    for seed in one.seeds():
        one.fuzz(seed)


@pytest.mark.parametrize("name", names())
# Not shrunk: what is left of an input is as good a start, and `make fuzz` finds more.
@settings(
    max_examples=40,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(random=st.randoms(use_true_random=False))
def test_changed_inputs_are_read_or_refused(name: str, random: Random) -> None:
    one = target(name)
    seeds = one.seeds()
    one.fuzz(mutated(random.choice(seeds), random, seeds))

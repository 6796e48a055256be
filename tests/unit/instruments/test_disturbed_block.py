"""The noise guard: what counts as disturbed."""

import pytest

from dballoc.experiment.model import Noise
from dballoc.instruments import disturbed_block
from dballoc.instruments.disturbed_block import BlockNoise
from dballoc.instruments.host_sampler import HostSample


def host(total: float, busy: float, steal: float, own: float = 0.0) -> HostSample:
    return HostSample(
        clock=0,
        user=busy,
        system=0,
        idle=total - busy - steal,
        iowait=0,
        steal=steal,
        switches=0,
        own_cpu=own,
    )


def test_what_we_used_ourselves_is_not_others() -> None:
    before, after = host(100, 40, 1, own=7.0), host(120, 52, 2, own=9.0)
    found = disturbed_block.compute_block_noise(before, after, load_cpu=7.0, probes=(0.1, 0.2))
    assert found == BlockNoise(
        steal=0.05, others=pytest.approx(3 / 20), probe_before=0.1, probe_after=0.2
    )


def test_rounding_never_makes_others_negative() -> None:
    assert (
        disturbed_block.compute_block_noise(
            host(100, 40, 0), host(110, 45, 0), load_cpu=5.1, probes=(1, 1)
        ).others
        == 0
    )


def test_no_time_between_readings_is_no_division_by_zero() -> None:
    assert (
        disturbed_block.compute_block_noise(host(100, 40, 0), host(100, 40, 0), 0, (1, 1)).steal
        == 0
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (BlockNoise(0.01, 0.02, 0.1, 0.1), None),
        (BlockNoise(0.05, 0.10, 0.1, 0.13), None),
        (BlockNoise(0.06, 0.02, 0.1, 0.1), "steal 6.0% > 5.0%"),
        (BlockNoise(0.01, 0.25, 0.1, 0.1), "other processes used 25.0% of the CPUs > 10.0%"),
        (
            BlockNoise(0.01, 0.02, 0.1, 0.14),
            "the fixed probe ran 1.40 times slower than usual > 1.30",
        ),
        (
            BlockNoise(0.01, 0.02, 0.14, 0.1),
            "the fixed probe ran 1.40 times slower than usual > 1.30",
        ),
    ],
)
def test_disturbed_or_not(found: BlockNoise, why: str | None) -> None:
    assert disturbed_block.describe_disturbance(found, Noise(), usual_probe=0.1) == why


def test_the_probe_takes_some_time() -> None:
    assert 0.001 < disturbed_block.time_fixed_probe() < 10

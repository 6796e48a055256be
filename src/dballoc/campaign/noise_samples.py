"""What a campaign records of the machine's noise during a block."""

import statistics
import time

from dballoc.experiment.model import Noise
from dballoc.instruments import disturbed_block, host_sampler
from dballoc.store.rows import MeasuredBlock


class BlockNoiseMeter:
    """Measures noise from its creation until :meth:`make_row`. ``cpu_seconds`` is for the caller to
    add what the block's servers and clients used.
    """

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self._started = time.time()
        self._host = host_sampler.take_host_sample()
        self._probe_before = disturbed_block.time_fixed_probe()

    def make_row(self, limits: Noise, earlier_probes: list[float]) -> MeasuredBlock:
        """Return the block's columns of table ``block``. ``earlier_probes``: seconds of the
        campaign's earlier probes.
        """
        probes = self._probe_before, disturbed_block.time_fixed_probe()
        noise = disturbed_block.compute_block_noise(
            self._host, host_sampler.take_host_sample(), self.cpu_seconds, probes
        )
        usual_probe = statistics.median([*earlier_probes, *probes])
        return MeasuredBlock(
            started=self._started,
            ended=time.time(),
            steal=noise.steal,
            others=noise.others,
            probe_before=noise.probe_before,
            probe_after=noise.probe_after,
            disturbed=disturbed_block.describe_disturbance(noise, limits, usual_probe),
        )

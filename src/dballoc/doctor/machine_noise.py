"""Check for one second whether the machine is quiet."""

import time

import psutil

from dballoc import readers
from dballoc.doctor.finding import Finding
from dballoc.experiment.model import Noise
from dballoc.host.process_handle import read_name
from dballoc.measure import disturbed_block, host_sampler

_SECONDS = 1.0


def check_noise() -> list[Finding]:
    """Compare steal, and the CPU use of other processes, with the limits of a block."""
    # psutil reports the use since its last call, so this first call starts the second.
    processes = list(psutil.process_iter())
    for process in processes:
        _measure_cpu(process)
    began, own_cpu = host_sampler.take_host_sample(), time.process_time()
    time.sleep(_SECONDS)
    noise = disturbed_block.compute_block_noise(
        began, host_sampler.take_host_sample(), time.process_time() - own_cpu, (1.0, 1.0)
    )
    busiest = max(
        ((_measure_cpu(p), p) for p in processes if p.pid), key=lambda pair: pair[0], default=None
    )
    limits = Noise()
    findings = [Finding("steal", "ok", f"{noise.steal:.1%} of the CPU time in the last second")]
    if noise.steal > limits.steal:
        text = (
            f"the hypervisor took {noise.steal:.1%} of the CPU time in the last second; a block "
            f"tolerates {limits.steal:.0%}"
        )
        findings = [
            Finding("steal", "warn", text, "use a machine with dedicated CPUs, or try again later")
        ]
    text = f"other processes use {noise.others:.1%} of the CPUs"
    if noise.others <= limits.others:
        return [*findings, Finding("load of others", "ok", text)]
    text += f"; a block tolerates {limits.others:.0%}"
    if busiest and busiest[0] > 1:
        # psutil completes a name of 15 characters by the command line, which may never answer.
        named = read_name(busiest[1].pid)
        name = readers.shown(named) if named else "one that has ended"
        text += f" (most: {name}, process {busiest[1].pid}, {busiest[0]:.0f} % of one)"
    return [*findings, Finding("load of others", "warn", text, "stop them, or wait")]


def _measure_cpu(process: psutil.Process) -> float:
    """Return a process's CPU use since the last call for it, in per cent of one CPU; 0 if it has
    ended.
    """
    try:
        return float(process.cpu_percent(None))
    except psutil.Error:
        return 0.0

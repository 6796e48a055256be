"""Samples of a process while this thread waits for something else."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dballoc.measure.process_sampler import ProcessGone, ProcessSample


@contextmanager
def sample_in_background(
    take_sample: Callable[[], ProcessSample], every: float = 0.2
) -> Iterator[list[ProcessSample]]:
    """Take a sample every ``every`` seconds until the block ends or the process does. Yields the
    list that the samples are appended to.

    Nobody else may use the sampler meanwhile. The sampling thread must not start a process, which
    would be killed with the thread (PDEATHSIG).
    """
    samples: list[ProcessSample] = []
    over = threading.Event()

    def take_samples() -> None:
        try:
            while not over.wait(every):
                samples.append(take_sample())
        except ProcessGone:
            pass  # whoever waits for the process notices it too

    thread = threading.Thread(target=take_samples, name="sampling", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()

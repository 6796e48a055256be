"""Samples of a process while this thread waits for something else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dballoc.measure.process_sampler import Gone, ProcessSampler, Sample


@contextmanager
def sampling(sampler: ProcessSampler, samples: list[Sample], every: float = 0.2) -> Iterator[None]:
    """Add a sample to ``samples`` every so many seconds until the block ends, or the process does.

    Nobody else may use the sampler in between. The thread starts no process: PDEATHSIG would follow
    it.
    """
    over = threading.Event()

    def work() -> None:
        try:
            while not over.wait(every):
                samples.append(sampler.sample())
        except Gone:
            pass  # the one who waits will see it too

    thread = threading.Thread(target=work, name="sampling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

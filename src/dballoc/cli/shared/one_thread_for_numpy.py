"""Import what imports numpy, without the threads that numpy would start."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread_for_numpy() -> Iterator[None]:
    """Keep numpy, while it is imported, from starting a thread for each CPU: OpenBLAS does so by
    itself, they spin beside the servers that are measured, and nothing here multiplies matrices.
    Programs that dballoc starts see the environment as it was.
    """
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]

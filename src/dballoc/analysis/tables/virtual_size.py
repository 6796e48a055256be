"""Compute VSZ, the size of a server's address space."""

import polars as pl

# MariaDB 10.11.12 and later reserves 8 TiB for its buffer pool at its start, beside which nothing
# else in VSZ could be seen. No malloc reserves as much so early: of glibc's arenas, 64 MiB each, it
# would take sixteen thousand.
_OF_THE_SERVER = 2**40


def add_virtual_size(samples: pl.DataFrame) -> pl.DataFrame:
    """Return rows of table ``sample`` with ``virtual``: VSZ in bytes as ps(1) shows it, including
    what mallocs reserve without touching it. What a server that reserves terabytes for itself had
    reserved when it had started is left out.
    """
    at_start = pl.col("reserved").sort_by("t").first().over("trial")
    of_server = pl.when(at_start >= _OF_THE_SERVER).then(at_start).otherwise(0)
    return samples.with_columns(virtual=(pl.col("vsz") - of_server).clip(0))


def reserves_terabytes(samples: pl.DataFrame) -> bool:
    """Whether any server of these rows of table ``sample`` reserves terabytes for itself."""
    return bool((samples["reserved"] >= _OF_THE_SERVER).any())

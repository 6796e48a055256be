"""Identify the libraries that variants name by path, so that no trial of a campaign runs with
another one than the trials before it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file


def hash_preloads(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """Return the SHA-256 of each library that variants name by path, by variant. Raises UsageError
    if one cannot be read.
    """
    hashes = {}
    for variant in experiment.variant:
        try:
            paths = [Path(path).expanduser() for path in variant.preload]
            hashes[variant.name] = tuple(map(_hash_file, paths))
        except OSError as error:
            raise UsageError(
                f"variant {variant.name!r}: preload {error.filename}: {error.strerror}"
            ) from None
    return {name: each for name, each in hashes.items() if each}


def _hash_file(path: Path) -> str:
    with open_foreign_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_preloads(
    experiment: Experiment, recorded: Mapping[str, Sequence[str]], results: Path
) -> None:
    """Raises UsageError if a library that a variant names by path is not the one whose hash is
    ``recorded``.
    """
    hashes = hash_preloads(experiment)
    for variant in experiment.variant:
        pairs = zip(hashes.get(variant.name, ()), recorded.get(variant.name, ()), strict=False)
        for path, (now, then) in zip(variant.preload, pairs, strict=False):
            if now != then:
                raise UsageError(
                    f"{results}: variant {variant.name!r}: {path} changed since its trials ran; "
                    "choose a new --out"
                )

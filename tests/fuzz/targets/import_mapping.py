"""The mapping file of a directory to import (``import.toml``)."""

import re
import tempfile
from pathlib import Path

from example_imports import MAPPING

from dballoc.ground.errors import UsageError
from dballoc.intake import mapping_file

OF = ("dballoc.intake.mapping_file", "dballoc.ground.readers")
PRIVILEGED = False


def seeds() -> list[bytes]:
    return [
        MAPPING.encode(),
        b'files = "{variant}/{workload}-{threads}-run{block}.txt"\n[variants]\nje = "jemalloc"\n',
    ]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "import.toml"
        path.write_bytes(data)
        try:
            mapping = mapping_file.read_mapping(path)
        except UsageError as error:
            assert "\n" not in str(error), error
            return
    for table in (mapping, *mapping.stacks, *mapping.memory):
        if table.files is not None:
            assert isinstance(mapping_file.compile_pattern(table.files), re.Pattern)
            mapping.resolve(table, {"variant": "a", "threads": "8"})

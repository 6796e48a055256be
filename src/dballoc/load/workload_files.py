"""The files of the user's own workloads, as they go to other hosts: read here, written there."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dballoc.experiment.model import Experiment
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.ground.files.output_directory import OutputDirectory, replace_file

# Of all of them, bytes.
MOST_BYTES = 1 << 20
# The keys of a workload that name a file.
_KEYS = ("script", "sql")


def read_workload_files(experiment: Experiment) -> dict[str, str]:
    """Return the files of the workloads that the experiment runs, by workload, base64. Raises
    UsageError for one that cannot be read, and if they are too large.
    """
    files = {}
    bytes_left = MOST_BYTES
    for name, workload in experiment.workload.items():
        path = workload.script or workload.sql
        if path is None or name not in experiment.loads:
            continue
        try:
            with open_foreign_file(Path(path)) as file:
                content = file.read(bytes_left + 1)
        except OSError as error:
            raise UsageError(f"workload {name!r}: {path}: {error.strerror}") from None
        bytes_left -= len(content)
        if bytes_left < 0:
            raise UsageError(
                f"--ray: own workloads of more than {MOST_BYTES >> 20} MiB cannot be sent to other "
                "hosts; put large data into tables"
            )
        files[name] = base64.b64encode(content).decode("ascii")
    return files


def write_workload_files(
    table: dict[str, Any], files: Mapping[str, str], directory: Path
) -> dict[str, Any]:
    """Write the files into a directory, which decides who may reach them, and return the
    experiment's table with their new places. A file keeps the last part of its name. Workloads
    without a file stay as they are. Raises Unfit if these are not the table's files.
    """
    workloads = dict(table.get("workload", {}))
    for number, (name, text) in enumerate(files.items()):
        workload = workloads.get(name, {})
        key = next((key for key in _KEYS if key in workload), None)
        if key is None:
            raise readers.Unfit("a file of a workload that the experiment does not have")
        try:
            content = base64.b64decode(text, validate=True)
        except ValueError:
            raise readers.Unfit("a workload's file is not base64") from None
        place = directory / str(number)
        place.mkdir(mode=0o700)
        place.chmod(0o755)
        path = place / (Path(workload[key]).name or "workload")
        with (
            OutputDirectory.open(place) as below,
            replace_file(below.fd, path.name, 0o644) as file,
        ):
            file.write(content)
        workloads[name] = {**workload, key: os.fspath(path)}
    return {**table, "workload": workloads} if files else table

"""The user's own files in a results directory: workloads are kept there, and all must stay what
they were.
"""

import json
from pathlib import Path

from dballoc.campaign.preparation.prepare import Setting
from dballoc.errors import UsageError
from dballoc.load.workload import shown

DIRECTORY = "own"
_RECORD = "identity.json"


def keep(setting: Setting, results: Path, begun: bool) -> None:
    """Copy the user's workloads into a results directory, and record what identifies them and own
    data.

    UsageError if it has trials already (``begun``) that ran with others.
    """
    works = [
        work
        for name in setting.experiment.workloads
        if (work := setting.sysbench.workload(name)).file
    ]
    found = {f"workload {work.name}": work.content for work in works}
    if setting.contents.identity:
        found["data"] = setting.contents.identity
    place = results / DIRECTORY
    try:
        recorded = json.loads((place / _RECORD).read_text())
    except (OSError, ValueError):
        recorded = {}
    if begun and recorded != found:
        changed = next(k for k in {**found, **recorded} if found.get(k) != recorded.get(k))
        file = next(
            (shown(w.file) for w in works if w.file and changed == f"workload {w.name}"),
            "the data's files",
        )
        raise UsageError(
            f"{results}: {changed}: {file} changed since its trials ran; choose a new --out"
        )
    if not found:
        return
    place.mkdir(exist_ok=True)
    for work in works:
        assert work.file
        (place / work.file.name).write_bytes(work.file.read_bytes())
    (place / _RECORD).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

"""The user's own files in a results directory: workloads are copied there, and neither they nor
own data may change between a campaign's runs.
"""

import json
from pathlib import Path

from dballoc import readers
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.errors import UsageError
from dballoc.files.output_directory import OutputDirectory
from dballoc.load.workload import LARGEST_FILE, shown

DIRECTORY = "own"
_RECORD = "identity.json"


def keep_user_files(setting: PreparedCampaign, results: Path, has_trials: bool) -> None:
    """Copy the user's workloads into a results directory, and record what identifies them and own
    data.

    UsageError if it has trials already (``has_trials``) that ran with other files.
    """
    works = [
        work
        for name in setting.experiment.workloads
        if (work := setting.sysbench.workload(name)).file
    ]
    identities = {f"workload {work.name}": work.content for work in works}
    if setting.contents.identity:
        identities["data"] = setting.contents.identity
    directory = results / DIRECTORY
    try:
        recorded = readers.document(readers.text(directory / _RECORD, below=results))
    except readers.Unfit:
        recorded = {}
    if has_trials and recorded != identities:
        changed = next(
            k for k in {**identities, **recorded} if identities.get(k) != recorded.get(k)
        )
        file = next(
            (shown(w.file) for w in works if w.file and changed == f"workload {w.name}"),
            "the data's files",
        )
        raise UsageError(
            f"{results}: {changed}: {file} changed since its trials ran; choose a new --out"
        )
    if not identities:
        return
    with (
        OutputDirectory.open(results) as outputs,
        outputs.open_subdirectory(DIRECTORY) as copies,
    ):
        for work in works:
            assert work.file
            copies.write(work.file.name, readers.content(work.file, LARGEST_FILE))
        copies.write(_RECORD, json.dumps(identities, indent=1, sort_keys=True) + "\n")

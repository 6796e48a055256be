"""An experiment file: TOML, its sweeps, the model, its text again, and what its post states beside
what it does.
"""

from dballoc import catalogue
from dballoc.experiment import experiment_file
from dballoc.ground.errors import UsageError
from dballoc.questions.published.setup.post_differences import compare_with_post
from dballoc.questions.published.setup.run_setup import RunSetup, WorkloadSetup

OF = (
    "dballoc.experiment.experiment_file",
    "dballoc.experiment.model",
    "dballoc.experiment.post",
    "dballoc.experiment.sweep",
    "dballoc.experiment.durations_and_sizes",
    "dballoc.ground.readers",
    "dballoc.questions.published.setup.compare_machine",
    "dballoc.questions.published.setup.compare_options",
    "dballoc.questions.published.setup.post_differences",
    "dballoc.questions.published.setup.setting_values",
    "dballoc.questions.published.setup.stated_paragraphs",
    "dballoc.questions.published.setup.workload_statements",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    return [text.encode() for text in catalogue.experiments().values()]


def fuzz(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    try:
        experiment = experiment_file.build_experiment(
            experiment_file.parse_table(text, "x.toml"), "x.toml", 4
        )
    except UsageError as error:
        assert "\n" not in str(error), error
        return
    again = experiment_file.format_experiment(experiment)
    again.encode()
    assert experiment_file.compute_identity(
        experiment_file.build_experiment(experiment_file.parse_table(again, "y"), "y")
    ) == experiment_file.compute_identity(experiment)
    if experiment.post is None:
        return
    names = [variant.name for variant in experiment.variant]
    sysbench = WorkloadSetup(
        title="", script="oltp_read_write", options=experiment.load.options, prepared=True
    )
    run = RunSetup(
        experiment=experiment,
        allocators=dict.fromkeys(names, "glibc 2.36"),
        servers=dict.fromkeys(names, "MariaDB 10.11.19"),
        workloads=dict.fromkeys(experiment.workloads, sysbench),
    )
    assert all(compared.run for compared in compare_with_post(experiment.post, run))

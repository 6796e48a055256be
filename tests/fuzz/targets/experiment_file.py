"""An experiment file: TOML, its sweeps, the model, and its text again."""

from dballoc import catalogue
from dballoc.errors import UsageError
from dballoc.experiment import file

OF = (
    "dballoc.experiment.file",
    "dballoc.experiment.model",
    "dballoc.experiment.sweep",
    "dballoc.experiment.units",
    "dballoc.readers",
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
        experiment = file.build(file.parse(text, "x.toml"), "x.toml", 4)
    except UsageError as error:
        assert "\n" not in str(error), error
        return
    again = file.dump(experiment)
    again.encode()
    assert file.identity(file.build(file.parse(again, "y"), "y")) == file.identity(experiment)

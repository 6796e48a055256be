"""What an experiment needs that has to be fetched first, said in one line rather than one at each
try.
"""

from collections.abc import Callable, Iterator
from functools import partial

from dballoc.allocators import find_library as find_allocator
from dballoc.errors import UsageError
from dballoc.experiment.model import Experiment
from dballoc.fetch import name_and_version
from dballoc.fetch.fetch_sources import NotHere
from dballoc.servers import build as find_build


def check(experiment: Experiment) -> None:
    """UsageError if several things have to be fetched. A single one is refused where it is needed,
    as all else is.
    """
    lacking: dict[str, None] = {}
    for look in _looks(experiment):
        try:
            look()
        except NotHere as error:
            lacking[error.reference] = None
        except UsageError:
            pass
    if len(lacking) > 1:
        raise UsageError(
            f"{len(lacking)} things are not here; fetch them: dballoc fetch {' '.join(lacking)}"
        )


def _looks(experiment: Experiment) -> Iterator[Callable[[], object]]:
    for variant in experiment.variant:
        server = experiment.server_of(variant)
        yield partial(find_build.find, server.use, server.basedir)
        glibc = [name_and_version.join("glibc", server.glibc)] if server.glibc else []
        for words in filter(None, [variant.allocator, *glibc]):
            if "@" in words:
                yield partial(find_allocator.find, words)

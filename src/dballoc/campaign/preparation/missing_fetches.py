"""Everything that an experiment needs and that must be fetched first, in one error rather than one
at each try.
"""

import shlex
from collections.abc import Callable, Iterator
from functools import partial

from dballoc.allocators import find_library as find_allocator
from dballoc.errors import UsageError
from dballoc.experiment.model import Experiment
from dballoc.fetch import name_and_version
from dballoc.fetch.fetch_sources import NotFetched
from dballoc.servers import build as find_build


def check_missing_fetches(experiment: Experiment) -> None:
    """UsageError if several servers or allocators have to be fetched. A single one is refused where
    it is needed, with its own message.
    """
    missing: dict[str, None] = {}
    for find in _list_lookups(experiment):
        try:
            find()
        except NotFetched as error:
            missing[error.reference] = None
        except UsageError:
            pass
    if len(missing) > 1:
        raise UsageError(
            f"{len(missing)} servers or libraries are missing; fetch them: "
            f"dballoc fetch {shlex.join(missing)}"
        )


def _list_lookups(experiment: Experiment) -> Iterator[Callable[[], object]]:
    """Yield a lookup for each server and allocator that may have to be fetched."""
    for variant in experiment.variant:
        server = experiment.server_of(variant)
        yield partial(find_build.find, server.use, server.basedir)
        glibc = [name_and_version.join_reference("glibc", server.glibc)] if server.glibc else []
        for reference in filter(None, [variant.allocator, *glibc]):
            if "@" in reference:
                yield partial(find_allocator.find_allocator, reference)

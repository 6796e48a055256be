"""What the driver has fetched for a campaign is fetched into a host's own store, from the same
places and by the same hashes.
"""

from collections.abc import Callable, Iterable, Mapping

from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.errors import UsageError
from dballoc.fetch import fetch_one, fetch_sources, name_and_version, private_store
from dballoc.fetch.fetch_sources import Source
from dballoc.fetch.private_store import FetchedEntry

# The SHA-256 of each downloaded file, by the file's name, by ``NAME@VERSION``.
FetchedFiles = Mapping[str, Mapping[str, str]]


def list_fetched_files(variants: Iterable[PreparedVariant]) -> dict[str, dict[str, str]]:
    """Return what these variants have from the store."""
    used: dict[str, dict[str, str]] = {}
    for variant in variants:
        loader = [variant.allocator.loader] if variant.allocator.loader else []
        for path in (variant.build.executable, *variant.allocator.libraries, *loader):
            if entry := private_store.find_owner(path):
                used[entry.reference] = list_files(entry)
    return used


def list_files(entry: FetchedEntry) -> dict[str, str]:
    """Return the hashes of an entry's downloads."""
    return {file["name"]: file["sha256"] for file in entry.manifest.get("files", [])}


def fetch_like_driver(
    fetched: FetchedFiles,
    notice: Callable[[str], None],
    fetch: Callable[..., tuple[FetchedEntry, bool]] = fetch_one.fetch,
) -> None:
    """Fetch what is not in this host's store yet. UsageError for what cannot be fetched, and for
    what came out as another file than the driver's; Failure if a fetch fails.
    """
    for reference, files in fetched.items():
        name, version = name_and_version.split_reference(reference)
        entry = private_store.find_requested(name, version or "")
        if entry is None:
            source = _find_source(name, reference)
            notice(f"fetching {reference}, as the driver has it")
            entry, _ = fetch(source, lambda step, share: None)
        if differing := _list_differing(list_files(entry), files):
            raise UsageError(
                f"{reference}: {differing[0]} is another file than on the driver; remove "
                f"{entry.place} on the older of the two, and fetch it again: dballoc fetch "
                f"{reference}"
            )


def _find_source(name: str, reference: str) -> Source:
    for source in fetch_sources.list_sources(name):
        if source.reference == reference:
            return source
    raise UsageError(
        f"{reference}, which the driver has, is in no source that dballoc knows; fetch it on this "
        f"host: dballoc fetch {reference} --from FILE|URL --sha256 HASH"
    )


def _list_differing(of_host: Mapping[str, str], of_driver: Mapping[str, str]) -> list[str]:
    """Return the files of the same name that are not the same."""
    return [name for name, digest in of_host.items() if of_driver.get(name, digest) != digest]

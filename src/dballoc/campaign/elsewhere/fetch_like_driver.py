"""What the driver has fetched for a campaign is fetched into a host's own store, from the same
places and by the same hashes.
"""

from collections.abc import Callable, Iterable, Mapping

from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.fetch import fetch_one, fetch_sources, name_and_version, private_store
from dballoc.fetch.fetch_sources import FetchSource
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground.errors import UsageError
from dballoc.host.guardian.guardian_client import Lease

# The SHA-256 of each downloaded file, by the file's name, by ``NAME@VERSION``.
FetchedFiles = Mapping[str, Mapping[str, str]]
_ARCHIVE = "its archive"


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
    """Return the hashes of an entry's downloads, by names that do not depend on the host: how an
    archive of the user's own is called is his.
    """
    is_archive = entry.manifest.get("from") == "archive"
    return {
        _ARCHIVE if is_archive else row["name"]: row["sha256"]
        for row in entry.manifest.get("files", [])
    }


def fetch_like_driver(
    fetched: FetchedFiles,
    notice: Callable[[str], None],
    lease: Lease,
    fetch: Callable[..., tuple[FetchedEntry, bool]] = fetch_one.fetch,
) -> None:
    """Fetch what is not in this host's store yet. Raises UsageError for what cannot be fetched, and
    unless all files are the driver's, neither more nor fewer; Failure if a fetch fails. ``lease``:
    with it ends what a fetch has started, such as a build.
    """
    for reference, files in fetched.items():
        name, version = name_and_version.split_reference(reference)
        entry = private_store.find_requested(name, version or "")
        if entry is None:
            source = _find_source(name, reference)
            notice(f"fetching {reference}, as the driver has it")
            entry, _ = fetch(source, lambda step, share: None, lease)
        if difference := find_difference(list_files(entry), files):
            flags = " --from FILE" if entry.manifest.get("from") == "archive" else ""
            raise UsageError(
                f"{reference}: {difference}; remove {entry.place} on the one whose fetch is older, "
                f"and fetch it again: dballoc fetch {reference}{flags}"
            )


def _find_source(name: str, reference: str) -> FetchSource:
    for source in fetch_sources.list_sources(name):
        if source.reference == reference:
            return source
    raise UsageError(
        f"{reference}, which the driver has, is in no source that dballoc knows; fetch it on this "
        f"host: dballoc fetch {reference} --from FILE|URL --sha256 HASH"
    )


def find_difference(of_host: Mapping[str, str], of_driver: Mapping[str, str]) -> str | None:
    """Return in words the first file that is not the same on both; None if all are. Pure."""
    for name, digest in of_driver.items():
        if name not in of_host:
            return f"the driver has {name}, and this host has not"
        if of_host[name] != digest:
            return f"{name} is another file than on the driver"
    for name in sorted(of_host.keys() - of_driver.keys()):
        return f"this host has {name}, and the driver has not"
    return None

"""Call stacks for ``dballoc import``: collapsed, of xperf's dumper, of Windows Performance
Analyzer's tables; as far as a profile and its tables.
"""

from example_imports import DUMP, TABLE, stack_file

from dballoc import catalogue
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import foreign_kinds, stack_profiles
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.contention.waits_below_malloc import split_waits
from dballoc.questions.campaign.sections import contention

OF = (
    "dballoc.intake.stack_profiles",
    "dballoc.intake.stack_profiles",
    "dballoc.intake.delimited_text",
    "dballoc.profile.formats.collapsed",
    "dballoc.intake.stack_profiles",
)
PRIVILEGED = False

RULES = Rules(catalogue.waits())

_COLLAPSED = b"""mariadbd;start_thread;my_malloc;malloc;__lll_lock_wait_private_[k] 12
ntdll.dll!RtlUserThreadStart;ucrtbase.dll!_malloc_base;ntdll.dll!RtlAllocateHeap+0x3e 51.51%
[truncated];mariadbd+0x1a2b;operator!=(A) 3
"""


def seeds() -> list[bytes]:
    return [
        _COLLAPSED,
        _COLLAPSED.decode().replace("\n", "\r\n").encode("utf-16"),
        DUMP.encode(),
        TABLE.encode(),
        TABLE.replace(",", ";").encode("utf-8-sig"),
    ]


def fuzz(data: bytes) -> None:
    try:
        text = foreign_kinds.decode_text(data, errors="replace")
    except readers.Unfit:
        return
    for counts, process in (("waits", None), ("waited", "mariadbd.exe"), ("wakeups", "1234")):
        try:
            profile = stack_profiles.parse_profile(
                text, stack_file(counts=counts, process=process), RULES
            )
        except UsageError as error:
            assert "\n" not in str(error), error
            continue
        split_waits(profile)
        value = profile.values[0].key
        contention.tabulate_functions({"a": profile}, value, "", "waits")

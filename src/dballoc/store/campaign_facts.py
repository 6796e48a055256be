"""Check the facts in the table ``campaign``: texts that can be printed, some of them JSON of the
forms here. Pure.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dballoc import readers
from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.designs import Design

NEEDED = ("format", "experiment", "environment", "planned_blocks", "designs", "duet", "started")
# TOML, which has lines.
_EXPERIMENT = "experiment"
# Unix time of the end of the year 9999, the last that Python's datetime has.
LATEST = 253_402_300_799.0


def _check_cpus(text: str) -> str:
    parse_cpus(text)
    return text


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has a character in it that cannot be printed")
    return text


_Count = Annotated[int, Field(ge=0, le=10**9)]
_Size = Annotated[int, Field(ge=0, lt=2**63)]
# Shares, seconds and standard deviations; infinite where there was too little data.
_Amount = Annotated[float, Field(ge=0)]
# Text that tables and charts show unchanged.
_Word = Annotated[str, AfterValidator(_check_printable)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class _Components(_Form):
    start: _Amount
    slice: _Amount
    piece: _Amount
    halves: float
    seconds: _Amount


class _Plan(_Form):
    slice: _Amount
    discard: _Amount
    pairs: _Count
    blocks: _Count
    block_seconds: _Amount
    half_width: _Amount
    confidence: _Amount


class _Duet(_Form):
    none: str | None = None
    halves: list[Annotated[str, AfterValidator(_check_cpus)]] = []
    threads: _Count = 0
    left_out: dict[str, str] = {}
    estimate: Literal["middle", "paired", "undisturbed"] = "middle"
    scatter: dict[str, float] = {}
    components: dict[str, _Components] = {}
    plan: _Plan | None = None


class _PlayedDuet(_Duet):
    halves: Annotated[list[Annotated[str, AfterValidator(_check_cpus)]], Field(min_length=1)]
    threads: _Count
    left_out: dict[str, str]
    estimate: Literal["middle", "paired", "undisturbed"]


class _Counters(_Form):
    events: list[str] = []
    refusal: str = ""


# The logical CPUs of a core; no processor has cores of more.
_Core = Annotated[list[Annotated[int, Field(ge=0, lt=100_000)]], Field(max_length=16)]


class _Environment(_Form):
    host: _Word | None = None
    user: _Word | None = None
    os: _Word | None = None
    kernel: _Word | None = None
    boot_id: _Word | None = None
    machine: _Word | None = None
    cpu: _Word | None = None
    cpus: _Count = 0
    cores: _Count = 0
    numa_nodes: _Count = 1
    memory: _Size | None = None
    swap: _Size | None = None
    hypervisor: bool | None = None
    governor: _Word | None = None
    thp: _Word | None = None
    thp_defrag: _Word | None = None
    thp_sizes: _Word | None = None
    cpus_of_cores: Annotated[list[_Core], Field(max_length=8192)] = []
    aslr: _Word | None = None
    overcommit: _Word | None = None
    libc: _Word | None = None
    python: _Word | None = None


class _Workload(_Form):
    title: str = ""
    group: str = ""
    script: str = ""
    options: dict[str, str] = {}
    prepared_statements: bool = False
    brings: bool = False
    reads_whole_tables: bool = Field(default=False, alias="whole")


class _File(_Form):
    name: str
    sha256: str


class _Machine(_Form):
    name: str
    trials: Annotated[int, Field(ge=1, le=10**9)]


class _PrivateBytes(_Form):
    trial: Annotated[int, Field(ge=1, le=10**9)]
    peak: _Size


class _ImportedProfile(_Form):
    machine: str
    variant: str
    workload: str
    threads: Annotated[int, Field(ge=1, lt=2**31)]
    counts: Literal["waits", "waited", "wakeups", "cpu"]


class _Imported(_Form):
    files: list[_File]
    machines: Annotated[list[_Machine], Field(min_length=1)]
    # The private bytes of trials, by number, and what the profiles are of, in their order.
    private: list[_PrivateBytes] = []
    profiles: Annotated[list[_ImportedProfile], Field(max_length=1000)] = []


class _ReplayMark(_Form):
    t: float
    name: str
    # What was measured of the recorded process then, in bytes.
    truth: dict[str, _Size] = {}


class _Replay(_Form):
    trace: str
    sha256: str
    program: str
    allocator: str
    seconds: _Amount
    events: _Size
    threads: _Count
    peak_live: _Size
    from_start: bool
    dropped: _Size
    ended_by: str
    not_seen: Annotated[list[str], Field(max_length=100)] = []
    marks: Annotated[list[_ReplayMark], Field(max_length=100_000)] = []
    mode: Literal["fast", "timed"]
    speed: _Amount
    touch: str
    # Seconds of the trace whose peak heap is judged.
    window: Annotated[list[_Amount], Field(min_length=2, max_length=2)] | None = None
    # The variants whose malloc may give memory back by the clock.
    decaying: list[str] = []
    peak_touched: _Size = 0
    threads_at_once: _Size = 0
    unknown_frees: _Size = 0
    double_frees: _Size = 0
    missed_frees: _Size = 0
    has_lost_end: bool = False
    allocator_version: str = ""
    settings: Annotated[dict[str, str], Field(max_length=100)] | None = None
    # The variant whose malloc is the recorded one.
    recorded_variant: str | None = None


class _Confirmation(_Form):
    base: str
    # Below the results directory.
    directory: Annotated[str, Field(pattern=r"^confirmation/[A-Za-z0-9][A-Za-z0-9._+=@-]{0,63}$")]
    finalists: Annotated[list[str], Field(min_length=1, max_length=3)]
    # TOML, as the campaign's results have it.
    experiment: str


class _Knob(_Form):
    base: str
    knob: str
    stage: Literal["replay", "server"] = "server"
    configurations: _Count | None = None
    failed: _Count | None = None
    memory_share: _Amount | None
    cost_share: _Amount | None
    memory: _Amount | None
    memory_low: _Amount | None = None
    memory_high: _Amount | None = None
    memory_value: str | None = None
    cost: _Amount | None
    cost_low: _Amount | None = None
    cost_high: _Amount | None = None
    cost_value: str | None = None
    measurable: bool | None


class _Surveyed(_Form):
    peak: _Size | None
    longest: _Amount


# By variant: for each variable that its server does not have which settles, the substitute or "".
SETTLED_OTHERWISE = "settled_otherwise"

_FORMS: dict[str, TypeAdapter[Any]] = {
    "knobs": TypeAdapter(Annotated[list[_Knob], Field(max_length=10_000)]),
    "confirmations": TypeAdapter(Annotated[list[_Confirmation], Field(max_length=100)]),
    "search_seconds": TypeAdapter(_Amount),
    "survey": TypeAdapter(dict[str, _Surveyed]),
    "searched_workloads": TypeAdapter(Annotated[list[str], Field(min_length=1)]),
    "finalists_elsewhere": TypeAdapter(Annotated[int, Field(ge=0, le=3)]),
    "replay": TypeAdapter(_Replay),
    "environment": TypeAdapter(_Environment),
    "planned_blocks": TypeAdapter(dict[Design, _Count]),
    "duet": TypeAdapter(_Duet),
    "counters": TypeAdapter(_Counters),
    "workloads": TypeAdapter(dict[str, _Workload]),
    "imported": TypeAdapter(_Imported),
    "options": TypeAdapter(dict[str, str]),
    "starts": TypeAdapter(dict[str, _Size]),
    "option_defaults": TypeAdapter(dict[str, str]),
    SETTLED_OTHERWISE: TypeAdapter(dict[str, dict[str, str]]),
    "decided": TypeAdapter(dict[Design, _Count]),
    "budget_looks": TypeAdapter(dict[Design, list[_Count]]),
}
LIBRARIES, ENVIRONMENT, COMMAND = (
    TypeAdapter(list[str]),
    TypeAdapter(dict[str, str]),
    TypeAdapter(list[str]),
)
PROOF = TypeAdapter(Any)
_HOST_NAME = TypeAdapter(_Word)
# The files of an imported campaign's profiles, below its directory, by their number from 1.
IMPORTED_PROFILES = "profiles/{}.profile.json.gz"
# The fact that only results of another command than bench have.
KIND = "kind"
FIT, REPLAY, TUNE = "fit", "replay", "tune"
# The fact that says where a campaign's clients are, and its only value: without it they are on the
# servers' hosts.
CLIENTS, APART = "clients", "apart"
# Of a tune's results: the rule by which finalists are judged, as --prefer takes it, and the
# confirmations, as they were declared; of a confirmation's, how many finalists the others have.
PREFERENCE, CONFIRMATIONS = "preference", "confirmations"
# Endings after which no more blocks come; after any other the campaign may go on.
FINAL_ENDINGS = ("planned", "decided", "budget")
# What each of a search's knobs was worth, and how long it took, in seconds by the clock.
KNOBS, SEARCH_SECONDS = "knobs", "search_seconds"
# Where a search's trials have not all of the experiment's workloads: what was seen of these (by
# workload: peak RSS, longest event), and which ones the trials have.
SURVEY, SEARCHED = "survey", "searched_workloads"
FINALISTS_ELSEWHERE = "finalists_elsewhere"


def check_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts, their JSON parsed and dumped again. Unfit, which names the key, if one is
    missing or malformed.
    """
    for key in NEEDED:
        if key not in facts:
            raise readers.Unfit(f"campaign: {key} is missing")
    checked = {key: _check_fact(key, value) for key, value in facts.items()}
    designs = checked["designs"].split()
    if not designs or len(set(designs)) != len(designs) or not set(designs) <= set(Design):
        raise readers.Unfit(
            f"campaign: designs: {readers.shown(checked['designs'])} is not a list of solo and duet"
        )
    planned = json.loads(checked["planned_blocks"])
    if checked.get(KIND) not in (FIT, TUNE) and (
        missing := [design for design in designs if design not in planned]
    ):
        raise readers.Unfit(f"campaign: planned_blocks: {missing[0]} is missing")
    if checked.get(KIND) == REPLAY and REPLAY not in checked:
        raise readers.Unfit(f"campaign: {REPLAY} is missing")
    if Design.DUET in designs:
        check_json(checked["duet"], TypeAdapter(_PlayedDuet), "campaign: duet")
    return checked


def _check_fact(key: str, value: str) -> str:
    if key in _FORMS:
        return check_json(value, _FORMS[key], f"campaign: {key}")
    if key == "margin":
        try:
            is_valid = 0 < float(value) < 1
        except ValueError:
            is_valid = False
        if not is_valid:
            raise readers.Unfit(f"campaign: margin: {readers.shown(value)} is not a share below 1")
    if key == "started":
        try:
            is_valid = 0 <= float(value) <= LATEST
        except ValueError:
            is_valid = False
        if not is_valid:
            raise readers.Unfit(f"campaign: started: {readers.shown(value)} is not a Unix time")
    if key != _EXPERIMENT and not (key.isprintable() and value.isprintable()):
        raise readers.Unfit(f"campaign: {readers.shown(key)}: {readers.shown(value)} is not valid")
    return value


def check_environment(text: str, place: str) -> str:
    """Return a host's environment, as :func:`check_json`."""
    return check_json(text, _FORMS["environment"], place)


def check_host_name(text: str, place: str) -> None:
    """Raise Unfit, which begins with ``place``, for a name that cannot be printed."""
    try:
        _HOST_NAME.validate_python(text)
    except ValidationError as error:
        raise readers.Unfit(f"{place}: {readers.first_complaint(error)}") from None


def _refuse_unprintable(document: Any) -> None:
    """Raise Unfit for a text that is not one printable line, but for experiments (TOML)."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        place, value = waiting.pop()
        match value:
            case str() if place.rpartition(".")[2] != _EXPERIMENT and not value.isprintable():
                raise readers.Unfit(f"{place[:80]}: {readers.shown(value)} cannot be printed")
            case list():
                waiting += [(place, item) for item in value]
            case dict():
                waiting += [(place, key) for key in value]
                waiting += [(f"{place}.{key[:40]}".lstrip("."), value[key]) for key in value]


def check_json(text: str, adapter: TypeAdapter[Any], place: str) -> str:
    """Return the JSON ``text``, parsed and dumped again. Unfit, which begins with ``place``, if it
    is not JSON or not of that form.
    """
    try:
        document = readers.document(text, finite=False)
        adapter.validate_python(document)
        _refuse_unprintable(document)
    except readers.Unfit as error:
        raise readers.Unfit(f"{place}: {error}") from None
    except ValidationError as error:
        raise readers.Unfit(f"{place}: {readers.first_complaint(error)}") from None
    return json.dumps(document)

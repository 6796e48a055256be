"""What a process shows of its malloc's settings and of its start: the loader's list of tunables,
mimalloc's table, the auxiliary vector, the attribute with its file's capabilities.
"""

from example_option_tables import attribute, make_option_table, make_tunable

from dballoc.host.process import privileged_start
from dballoc.process.malloc.read_settings import parse_option_table, parse_tunable_list

OF = (
    "dballoc.host.process.privileged_start",
    "dballoc.process.malloc.read_settings",
    "dballoc.process.malloc.read_settings",
)
PRIVILEGED = True
_NAMES = ("show_errors", "decommit_delay", "reset_delay")
_TEXTS = 0x7000


def seeds() -> list[bytes]:
    lists = [
        make_tunable(layout, "glibc.malloc.perturb", "MALLOC_PERTURB_", 7, True)
        + make_tunable(layout, "glibc.malloc.arena_max", "MALLOC_ARENA_MAX", 2, True)
        for layout in ("2.36", "2.39", "2.41")
    ]
    capabilities = [attribute(1 << 23, revision=revision) for revision in (1, 2, 3)]
    return [*lists, *capabilities, make_option_table(_TEXTS)]


def fuzz(data: bytes) -> None:
    for name, setting in parse_tunable_list(data).items():
        assert name.startswith("glibc.")
        assert setting.value is None or int(setting.value) >= 0
    options = parse_option_table([(_TEXTS, data)], _NAMES)
    assert set(options) <= set(_NAMES)
    names, _ = privileged_start.parse_capabilities(data)
    assert len(names) <= 64

"""What variants ask of the host's huge pages: whether it can have it, what two servers at once
share, and what is switched from one trial to the next.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_duet import share_host
from dballoc.campaign.trial.host_thp import switch_thp
from dballoc.doctor import kernel
from dballoc.experiment.model import Variant
from dballoc.host.process.handle import Process
from dballoc.host.settings import thp
from dballoc.host.settings.thp import combine_modes
from dballoc.host.settings.writable_settings import HOST_SETTINGS, HostSetting

MODES = "always [madvise] never"
SIZE_MODES = "always inherit madvise [never]"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for /sys/kernel/mm/transparent_hugepage, of a kernel with switches of two sizes
    and without ``defer+madvise``.
    """
    for name, text in {
        "enabled": MODES,
        "defrag": "always defer [madvise] never",
        "hpage_pmd_size": "2097152",
        "hugepages-8kB/shmem_enabled": "always inherit within_size advise [never]",
        "hugepages-64kB/enabled": SIZE_MODES,
        "hugepages-2048kB/enabled": "always [inherit] madvise never",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    real = Path(thp.ENABLED).parent
    settings = {
        name: HostSetting(str(tmp_path / Path(s.path).relative_to(real)), s.values)
        for name, s in HOST_SETTINGS.items()
    }
    monkeypatch.setattr(thp, "HOST_SETTINGS", settings)
    return tmp_path


def variant(**keys: object) -> Variant:
    return Variant.model_validate({"name": "x", **keys})


def ask(**keys: object) -> dict[str, str]:
    return variant(**keys).host_settings


# -- the host ----------------------------------------------------------------------------------------------------------------


def test_what_the_host_has(host: Path) -> None:
    assert thp.read_host() == {
        "thp": "madvise",
        "thp_defrag": "madvise",
        "thp_64K": "never",
        "thp_2M": "inherit",
    }
    assert thp.read_mode() == "madvise"
    assert thp.describe_host(thp.read_host()) == "madvise, defrag madvise; never: 64K; inherit: 2M"
    assert kernel.check_huge_pages().text.endswith("; defrag madvise; never: 64K; inherit: 2M")
    (host / "enabled").unlink()
    assert thp.read_mode() is None
    assert thp.describe_process_mode(Process.own()) == "absent"
    assert "this kernel has none" in kernel.check_huge_pages().text


@pytest.mark.parametrize(
    ("text", "size"), [("33554432\n", 32 << 20), ("0\n", None), ("?\n", None), (None, None)]
)
def test_the_size_that_is_mapped_at_once_is_the_kernels(
    host: Path, text: str | None, size: int | None
) -> None:
    assert thp.read_mapped_size() == 2 << 20
    path = host / "hpage_pmd_size"
    path.unlink() if text is None else path.write_text(text)
    assert thp.read_mapped_size() == size


@pytest.mark.parametrize(
    ("keys", "obstacle"),
    [
        ({}, None),
        ({"thp": "never", "thp_defrag": "defer", "thp_sizes": {"64K": "always"}}, None),
        (
            {"thp_defrag": "defer+madvise"},
            "thp_defrag: this kernel does not know 'defer+madvise'; it knows always, defer, madvise, never",
        ),
        (
            {"thp": "always", "thp_sizes": {"128K": "always"}},
            "thp_sizes.128K: this kernel cannot switch it; it has 64K, 2M",
        ),
    ],
)
def test_what_the_host_cannot_have_is_said(
    host: Path, keys: dict[str, object], obstacle: str | None
) -> None:
    assert thp.find_obstacle(ask(**keys)) == obstacle


def test_only_root_can_switch(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert thp.find_obstacle(ask(thp="madvise", thp_defrag="madvise")) is None, "as it is already"
    assert thp.find_obstacle(ask(thp_sizes={"64K": "always"})) == (
        "thp_sizes.64K: the host is at 'never' and only root can switch it to 'always'; run as root"
    )
    assert kernel.check_huge_pages().remedy == "run as root"


def test_a_kernel_without_what_is_asked(host: Path) -> None:
    for name in ("hugepages-64kB", "hugepages-2048kB"):
        (host / name / "enabled").unlink()
    assert thp.find_obstacle(ask(thp_sizes={"64K": "always"})) == (
        "thp_sizes.64K: this kernel cannot switch it; it has no switches of sizes (Linux 6.8)"
    )
    (host / "enabled").unlink()
    assert thp.find_obstacle(ask(thp_defrag="never")) == (
        "thp_defrag: this kernel has no transparent huge pages"
    )


def test_somebody_elses_switch_is_seen(host: Path) -> None:
    before = thp.read_host()
    assert thp.find_switched(before) is None
    path = host / "hugepages-64kB" / "enabled"
    path.write_text("[always] inherit madvise never")
    assert thp.find_switched(before) == (str(path), "never", "always")
    path.unlink()
    assert thp.find_switched(before) == (str(path), "never", "absent")


def test_the_mode_of_a_process(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    us = os.getpid()
    monkeypatch.setattr(thp, "is_thp_allowed", lambda pid: True)
    assert thp.describe_process_mode(Process.open(us)) == "madvise"
    assert thp.describe_process_mode(
        Process.open(us), ask(thp="madvise", thp_defrag="madvise")
    ) == ("madvise, defrag madvise")
    (host / "hugepages-64kB" / "enabled").write_text("[always] inherit madvise never")
    (host / "hugepages-2048kB" / "enabled").write_text("always inherit madvise [never]")
    monkeypatch.setattr(thp, "is_thp_allowed", lambda pid: False)
    assert thp.describe_process_mode(Process.open(us)) == (
        "madvise, switched off by the process, 64K always, 2M never"
    )


# -- a variant ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, False),
        ({"thp": "never"}, False),
        ({"thp": "never", "thp_defrag": "always"}, False),
        ({"thp": "never", "thp_sizes": {"2M": "never"}}, False),
        ({"thp": "never", "thp_sizes": {"64K": "madvise"}}, True),
        ({"thp": "madvise"}, True),
        # The host's own mode may be any.
        ({"thp_defrag": "never"}, True),
        ({"thp_sizes": {"2M": "inherit"}}, True),
    ],
)
def test_whether_the_server_may_switch_it_off_for_itself(
    keys: dict[str, object], wanted: bool
) -> None:
    assert variant(**keys).wants_huge_pages is wanted


def test_sizes_are_written_alike() -> None:
    assert variant(thp_sizes={"1024K": "always", "0.5G": "never"}).thp_sizes == {
        "1M": "always",
        "512M": "never",
    }
    assert {f"thp_{size}" for size in variant(thp_sizes={"16K": "never"}).thp_sizes} < set(
        HOST_SETTINGS
    )


# -- two at once -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "host_mode", "expected"),
    [
        (None, None, "always", (None, (False, False))),
        (None, None, None, (None, (False, False))),
        ("never", "never", "always", ("never", (False, False))),
        ("always", "never", "madvise", ("always", (False, True))),
        ("never", "madvise", "always", ("madvise", (True, False))),
        (None, "always", "never", ("always", (True, False))),
        (None, "never", "always", ("always", (False, True))),
        ("madvise", "always", "never", None),
        (None, "always", "madvise", None),
        ("madvise", None, "madvise", ("madvise", (False, False))),
    ],
)
def test_the_widest_is_the_hosts_and_prctl_narrows(
    first: str | None,
    second: str | None,
    host_mode: str | None,
    expected: tuple[str | None, tuple[bool, ...]] | None,
) -> None:
    assert combine_modes([first, second], host_mode) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"thp_defrag": "never"}, {"thp_defrag": "never"}, {"thp_defrag": "never"}),
        (
            {"thp": "always", "thp_defrag": "never"},
            {"thp": "never", "thp_defrag": "never"},
            {"thp": "always", "thp_defrag": "never"},
        ),
        ({}, {"thp_defrag": "never"}, "another thp_defrag"),
        ({"thp_sizes": {"64K": "always"}}, {}, "other thp_sizes"),
        (
            {"thp": "always", "thp_sizes": {"64K": "always"}},
            {"thp": "never", "thp_sizes": {"64K": "always"}},
            "another THP mode than the baseline",
        ),
        ({"thp": "always"}, {"thp": "madvise"}, "always and madvise at once"),
    ],
)
def test_two_servers_at_once_share_the_host(
    first: dict[str, object], second: dict[str, object], expected: dict[str, str] | str
) -> None:
    together = share_host([variant(**first), variant(**second)], "madvise")
    if isinstance(expected, str):
        assert isinstance(together, str)
        assert expected in together
    else:
        assert not isinstance(together, str)
        assert together.settings == expected


def optional(values: tuple[str, ...]) -> st.SearchStrategy[str | None]:
    return st.none() | st.sampled_from(values)


VARIANTS = st.builds(
    variant,
    thp=optional(("always", "madvise", "never")),
    thp_defrag=optional(("always", "defer", "never")),
    thp_sizes=st.dictionaries(
        st.sampled_from(["64K", "2M"]), st.sampled_from(["always", "inherit", "never"])
    ),
)


@given(VARIANTS, optional(("always", "madvise", "never")))
def test_any_variant_runs_beside_itself_as_it_does_alone(
    each: Variant, host_mode: str | None
) -> None:
    together = share_host([each, each], host_mode)
    assert not isinstance(together, str)
    assert dict(together.settings) == each.host_settings
    assert together.switched_off == (False, False)


# -- from one trial to the next ----------------------------------------------------------------------------------------------

OWN = {"thp": "madvise", "thp_defrag": "defer", "thp_64K": "never", "thp_2M": "inherit"}


class Host:
    """A machine whose guardian switches; it counts as changed what was written to it."""

    def __init__(self) -> None:
        self.values = dict(OWN)
        self.writes = 0

    def set(self, name: str, value: str) -> None:
        self.values[name] = value
        self.writes += 1

    def restore(self) -> None:
        self.values = dict(OWN)


@given(st.lists(VARIANTS, min_size=1, max_size=5))
def test_each_trial_has_its_variants_settings_and_otherwise_the_hosts(
    variants: list[Variant],
) -> None:
    machine = Host()
    prepared = {str(n): SimpleNamespace(variant=each) for n, each in enumerate(variants)}
    setting = SimpleNamespace(variants=prepared, thp=dict(OWN))
    setting.thp_settings = PreparedCampaign.thp_settings.fget(setting)  # type: ignore[attr-defined]
    switches = PreparedCampaign.switches_thp.fget(setting)  # type: ignore[attr-defined]
    with patch.object(thp, "read_host", lambda: dict(machine.values)):
        for each in variants:
            expected: Mapping[str, str] = OWN | each.host_settings
            assert switch_thp(machine, setting, each.host_settings) == expected  # type: ignore[arg-type]
            assert machine.values == expected
    # Without the machine's lock nothing can be written.
    assert bool(machine.writes) == switches

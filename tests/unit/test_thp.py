"""How two servers with THP modes of their own run at once."""

import pytest

from dballoc.host.settings.thp import combine_modes


@pytest.mark.parametrize(
    ("first", "second", "host", "expected"),
    [
        (None, None, "always", (None, False, False)),
        (None, None, None, (None, False, False)),
        ("never", "never", "always", ("never", False, False)),
        ("always", "never", "madvise", ("always", False, True)),
        ("never", "madvise", "always", ("madvise", True, False)),
        (None, "always", "never", ("always", True, False)),
        (None, "never", "always", ("always", False, True)),
        ("madvise", "always", "never", None),
        (None, "always", "madvise", None),
        ("madvise", None, "madvise", ("madvise", False, False)),
    ],
)
def test_the_widest_is_the_hosts_and_prctl_narrows(
    first: str | None,
    second: str | None,
    host: str | None,
    expected: tuple[str | None, bool, bool] | None,
) -> None:
    assert combine_modes(first, second, host) == expected

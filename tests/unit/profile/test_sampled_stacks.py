"""Which allocations performance_schema's instruments count, by their stacks."""

import pytest

from dballoc.profile.heap.live_heap import is_counted
from dballoc.profile.model import Frame


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        (["do_command", "THD::init(bool)", "my_malloc"], True),
        (
            [
                "buf_pool_init()",
                "ut_allocator<unsigned char, true>::allocate(unsigned long, unsigned char const*)",
            ],
            True,
        ),
        (["ssl_start", "SSL_CTX_new", "CRYPTO_malloc"], False),
        (
            [
                "main",
                "std::string::_M_create(unsigned long&, unsigned long)",
                "operator new(unsigned long)",
            ],
            False,
        ),
        ([], False),
    ],
)
def test_what_goes_past_the_instruments(functions: list[str], expected: bool) -> None:
    assert is_counted([Frame(name, "mariadbd") for name in functions]) is expected

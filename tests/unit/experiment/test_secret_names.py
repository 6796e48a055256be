"""Which names stand for secrets, however they are spelled, and what is left of a text that has
their values.
"""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.experiment import secret_names

CANARY = "CaNaRy7f3e"
CORES = (
    "secret",
    "password",
    "passwd",
    "passphrase",
    "token",
    "access-key",
    "api-key",
    "private-key",
    "credentials",
    "root-pwd",
    "otlp",
    "sst-auth",
)
BEGINNINGS = (
    "",
    "s3-",
    "report-",
    "loose-",
    "skip-",
    "loose-skip-",
    "plugin-",
    "plugin-load-",
    "x.y.",
    "innodb-",
)
ENDINGS = ("", "-key", "-size", "-2", "s", ".value")
PATTERNS = st.one_of(
    st.tuples(
        st.sampled_from(BEGINNINGS),
        st.from_regex(r"([a-z]{1,8}-)?", fullmatch=True),
        st.sampled_from(CORES),
        st.sampled_from(ENDINGS),
    ).map("".join),
    st.tuples(
        st.sampled_from(("", "loose-", "skip-", "plugin-", "loose-plugin-", "enable-")),
        st.sampled_from(("s3-", "spider-")),
        st.from_regex(r"[a-z]{1,10}(-[a-z]{1,10})?", fullmatch=True),
    ).map("".join),
)


@st.composite
def spelled(draw: st.DrawFn) -> str:
    """A sensitive name with its dashes and its case as somebody may write them."""
    name = draw(PATTERNS)
    switch = draw(st.lists(st.integers(0, 3), min_size=len(name), max_size=len(name)))
    return "".join(
        ("_" if s & 1 else "-") if c == "-" else c.upper() if s & 2 else c
        for c, s in zip(name, switch, strict=True)
    )


@given(spelled())
def test_every_spelling_is_sensitive(name: str) -> None:
    assert secret_names.is_sensitive(name)


@pytest.mark.parametrize(
    "name",
    ["report-passw", "loose_s3_secr", "x-tok", "my_access_k", "s3", "SPIDER", "loose-credent"],
)
def test_a_beginning_of_a_name_is_enough(name: str) -> None:
    assert secret_names.is_sensitive(name)
    assert secret_names.is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "innodb_buffer_pool_size", "init-file", "slow_query_log_file", "innodb_flush_log_at_trx_commit", "sort_buffer_size",
        "connect_timeout", "init_connect", "pid-file", "innodb_use_native_aio", "table_open_cache", "sql_mode", "keep_files_on_create",
        "key_buffer_size", "innodb_adaptive_hash_index_parts", "rocksdb_block_cache_size", "big_tables", "loose-dump-period-sec", "performance_schema_accounts_size",
    ],
)  # fmt: skip
def test_ordinary_settings_are_not(name: str) -> None:
    assert not secret_names.is_sensitive(name)


@pytest.mark.parametrize(
    "name",
    ["validate_password_length", "loose-validate_password.policy", "default_password_lifetime", "old_passwords",
     "innodb_ft_min_token_size", "ngram_token_size", "simple_password_check_digits", "skip-caching-sha2-password-auto-generate-rsa-keys"],
)  # fmt: skip
def test_rules_and_sizes_are_no_secrets(name: str) -> None:
    assert secret_names.is_sensitive(name)
    assert not secret_names.is_secret(name)


FORMS = (
    "--{0}={1}",
    "{0} = {1}",
    "{0}={1}",
    '{0} = "{1}"',
    "{0}='{1} {1}'",
    "{0}\t{1}",
    '"{0}": "{1}"',
    '{{"{0}": "{1}", "b": 1}}',
    "note: {0}={1}",
    "--set-variable={0}={1}",
    "unknown variable '{0}={1} {1}'",
    "{0}: {1}",
    "--{0} {1}",
    "[x] {0}={1},{1}",
    'a="{0}={1}\'{1}"',
    "({0}={1})",
)


@given(spelled(), st.sampled_from(FORMS), st.text(max_size=30), st.text(max_size=30))
def test_no_value_of_a_secret_is_left_in_a_text(
    name: str, form: str, before: str, after: str
) -> None:
    if not secret_names.is_secret(name):
        return
    text = before + "\n" + form.format(name, CANARY) + "\n" + after
    assert CANARY not in secret_names.hide_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        f"http_proxy=http://jane:{CANARY}@proxy:3128/", f"mysql://app:{CANARY}/x@db7/shop", f"dsn is app:{CANARY}@tcp(db7:3306)/shop",
        f"CREATE USER a IDENTIFIED BY '{CANARY}'", f"ALTER USER a IDENTIFIED VIA mysql_native_password USING PASSWORD('{CANARY}')",
        f'create user a identified with sha256_password as "{CANARY}"', f"SET PASSWORD = PASSWORD('{CANARY}')",
        f"SET PASSWORD FOR a = '{CANARY}'"[:12] + f" = '{CANARY}'",
    ],
)  # fmt: skip
def test_addresses_and_statements(text: str) -> None:
    assert CANARY in text
    assert CANARY not in secret_names.hide_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "Access denied for user 'app'@'localhost' (using password: YES)", "innodb_buffer_pool_size=32M", "and/or 10/100",
        "left out (secrets and other hosts): s3_secret_key, s3_access_key", "jemalloc@5.3.0 at http://jemalloc.net/x",
        "--validate-password-length=8", "innodb_ft_min_token_size\t3", "2026-11-02 10:00:00 0 [Note] InnoDB: started",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert secret_names.hide_secrets(text) == text


def test_json_stays_json() -> None:
    document = json.dumps(
        {
            "s3_secret_key": CANARY,
            "options": ["--loose-x-token=" + CANARY, 5, None],
            "spider_x": "",
            "n": 1,
        }
    )
    hidden = secret_names.hide_secrets(document)
    assert CANARY not in hidden
    assert json.loads(hidden)["n"] == 1


def test_a_word_of_a_command_line_is_hidden_to_its_end() -> None:
    assert (
        secret_names.hide_argument(f"--s3-secret-key=a {CANARY}")
        == f"--s3-secret-key={secret_names.HIDDEN}"
    )
    assert secret_names.hide_argument("--sort-buffer-size=1M") == "--sort-buffer-size=1M"


@pytest.mark.parametrize(
    "text",
    [
        "a" * 400_000,
        "a.-" * 130_000,
        "a=" * 200_000,
        "x://" * 100_000,
        '"' * 400_000,
        "token='" * 60_000,
        "identified by " * 30_000,
        "a:" * 200_000,
        "token=\\" * 60_000,
        " \t" * 200_000,
    ],
)
def test_a_hostile_text_takes_no_long_time(text: str) -> None:
    began = time.process_time()
    secret_names.hide_secrets(text)
    assert time.process_time() - began < 20

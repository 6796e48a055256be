"""Tell which names of options and variables stand for secrets, and hide the values of such names in
texts. Pure.

Every room that takes, records or shows settings of a server asks here, so that there is one list.
"""

import re
from fnmatch import fnmatchcase

HIDDEN = "(hidden)"

# Anywhere in a name, whatever separates its words.
_WHOLE_WORDS = ("secret", "password", "passwd", "passphrase", "token", "credential")
_SEVERAL_WORDS = (
    "accesskey",
    "apikey",
    "privatekey",
    "filekey",
    "sstauth",
    "connectstring",
    "connectionstring",
)
_PARTS = (*_WHOLE_WORDS, *_SEVERAL_WORDS, "pwd", "otlp")
# As a word of a name. For engines that connect to other hosts, even the host's name is private.
_WORDS = frozenset({"s3", "spider", "dsn"})
# Servers accept an abbreviated name (report-passw). This many letters of a last word are enough;
# `sec` alone is seconds.
_BEGINNING = 3
_NO_BEGINNING = "sec"
# Settings that match although their values are rules and sizes.
_HARMLESS = (
    "validate-password*",
    "*password-lifetime",
    "password-history",
    "password-reuse-*",
    "password-require-current",
    "old-passwords",
    "*password-check*",
    "strict-password-validation",
    "sha256-password-*",
    "caching-sha2-password-*",
    "mysql-native-password*",
    "max-password-errors",
    "disconnect-on-expired-password",
    "generated-random-password-length",
    "innodb-ft-*-token-size",
    "ngram-token-size",
)
_BEFORE = re.compile(r"(?:(?:loose|skip|disable|enable|maximum|plugin|global|session)-)+")

# A name and the separator between it and its value: name=value, name: value, "name": value,
# name<TAB>value, --name value.
_NAME = re.compile(
    r"""(?<![\w.@-])(?P<name>[\w.@-]++)["'`]?"""
    r"""(?:[ \t]*=[ \t]*|[ ]*:[ \t]*|\t[ \t]*|(?P<blank>[ ]+)(?![-=: \t]))"""
)
_QUOTES = "\"'`"
_IN_QUOTES = {
    quote: re.compile(rf"{quote}(?:\\.|[^\\{quote}])*+{quote}?", re.DOTALL) for quote in _QUOTES
}
_TO_QUOTE = {quote: re.compile(rf"(?:\\.|[^\\{quote}])*+", re.DOTALL) for quote in _QUOTES}
_JSON_SCALAR = re.compile(r"[^\s,}\]]*+")
_WORD = re.compile(r"\S*+")
# "Access denied for user 'x' (using password: YES)".
_WHETHER = re.compile(r"(?:YES|NO)\b")
# SQL: IDENTIFIED BY 'x', PASSWORD('x').
_SQL = re.compile(
    r"(\bidentified\s+(?:(?:via|with)\s+\S+\s+)?(?:by|as|using)\s+(?:password\s*)?\(?\s*|\bpassword\s*\(\s*)"
    r"""("(?:\\.|[^"\\])*+"?|'(?:\\.|[^'\\])*+'?)""",
    re.IGNORECASE,
)
# scheme://user:password@host, and user:password@tcp(host) as Go programs write it.
_URL = re.compile(r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,30}+://)[^\s"'<>]{0,2000}@""")
_DSN = re.compile(r"""(?<![^\s:"'/=])[^\s:"'/=]{1,200}+:[^\s"']{0,2000}@(?=(?:tcp6?|unix)\()""")


def is_sensitive(name: str) -> bool:
    """Whether a name suggests that its value may be a secret, in any spelling: dashes, case,
    prefixes, an abbreviated end.
    """
    words = re.findall(r"[a-z0-9]+", name.lower())
    joined = "".join(words)
    if any(part in joined for part in _PARTS) or not _WORDS.isdisjoint(words):
        return True
    last = words[-1] if words else ""
    if (
        len(last) >= _BEGINNING
        and last != _NO_BEGINNING
        and any(part.startswith(last) for part in _WHOLE_WORDS)
    ):
        return True
    return any(joined.endswith((part[:-1], part[:-2])) for part in _SEVERAL_WORDS)


def is_secret(name: str) -> bool:
    """Whether a name is sensitive (:func:`is_sensitive`) and not one of the settings that are known
    to hold rules and sizes.
    """
    bare = _BEFORE.sub("", re.sub(r"[_.]", "-", name.lower().lstrip("-@")), count=1)
    return is_sensitive(name) and not any(fnmatchcase(bare, pattern) for pattern in _HARMLESS)


def hide_value(name: str, value: str) -> str:
    """Return a setting's value as it may be shown and stored."""
    return HIDDEN if value and is_secret(name) else hide_secrets(value)


def hide_argument(word: str) -> str:
    """Return one word of a command line, whose value may hold blanks, with a secret hidden."""
    name, equals, value = word.partition("=")
    return (
        f"{name}={HIDDEN}"
        if word.startswith("--") and value and equals and is_secret(name)
        else word
    )


def hide_secrets(text: str) -> str:
    """Return a text with the values of secret names hidden, and the user's part of addresses."""
    text = _URL.sub(rf"\1{HIDDEN}@", text)
    text = _DSN.sub(f"{HIDDEN}@", text)
    text = _SQL.sub(rf"\1'{HIDDEN}'", text)
    pieces, at, kept = [], 0, 0
    while match := _NAME.search(text, at):
        at = match.end("name")
        if (match["blank"] and not match["name"].startswith("--")) or not is_secret(match["name"]):
            continue
        start, end = match.end(), _find_end_of_value(text, match)
        if end > start and not _WHETHER.match(text, start):
            quote = text[start] if text[start] in _QUOTES else ""
            pieces += [text[kept:start], f"{quote}{HIDDEN}{quote}"]
            at = kept = end
    return "".join([*pieces, text[kept:]])


def _find_end_of_value(text: str, match: re.Match[str]) -> int:
    """Return where the value ends that begins at the match's end: with its own quotes, with the
    quotes around name and value, or with the word.
    """
    start = match.end()
    before, after = text[match.start() - 1 : match.start()], text[match.end("name")]
    if start < len(text) and text[start] in _QUOTES and text[start] != before:
        pattern = _IN_QUOTES[text[start]]
    elif after in _QUOTES:
        pattern = (
            _IN_QUOTES[text[start]] if text[start : start + 1] in tuple(_QUOTES) else _JSON_SCALAR
        )
    elif before and before in _QUOTES:
        pattern = _TO_QUOTE[before]
    else:
        pattern = _WORD
    value = pattern.match(text, start)
    return value.end() if value else start

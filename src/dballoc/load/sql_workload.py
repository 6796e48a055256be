"""The small language of a SQL workload: statements with random parameters, parsed, checked, and
compiled for our Lua. Pure.

A file holds statements that end with ``;`` and comments (``-- ``, ``#``, ``/* */``). All its
statements together are one event. A parameter in braces becomes text, exactly where it stands,
within quotes too::

    {int:1:1000}        a whole number from 1 to 1000, distributed as load.random says
    {string:20}         20 random letters
    {choice:a|b|c}      one of these texts
    {id=int:1:1000}     the same, and remembered until the end of the event
    {id}                what was drawn for id
    {{                  a brace

A brace that no letter and then ``:``, ``=`` or ``}`` follows is a plain brace, so that JSON can be
written as it is.
"""

import re
from dataclasses import dataclass

# Lua's numbers are exact to 2^53; sysbench draws 32 bits.
_LARGEST = 2**53
_WIDEST = 2**32 - 2
_LONGEST = 65_535
KINDS = ("int", "string", "choice")
_HINT = (
    "a parameter is {int:LOW:HIGH}, {string:LENGTH}, {choice:A|B}, {name=…} or {name}; write {{ "
    "for a brace"
)

_OPENS = re.compile(r"\{([A-Za-z_]\w*)(?=[:=}])")
_DASHES = re.compile(r"--(?=\s|\Z)")
_READS = (
    "select",
    "show",
    "explain",
    "describe",
    "desc",
    "with",
    "table",
    "values",
    "set",
    "begin",
    "start",
    "commit",
    "rollback",
    "use",
    "do",
)


class SqlError(Exception):
    """A mistake in a file; the text says what, ``line`` where."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Int:
    """A whole number, both ends included."""

    low: int
    high: int


@dataclass(frozen=True)
class String:
    """A number of random letters."""

    length: int


@dataclass(frozen=True)
class Choice:
    """One of several texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter. ``name`` remembers the value that is drawn; without a ``kind`` it was drawn
    before.
    """

    name: str | None
    kind: Int | String | Choice | None


@dataclass(frozen=True)
class SqlStatement:
    """A statement. ``line``: where it begins in its file. Its pieces keep the line breaks, so that
    the server's line numbers are right.
    """

    line: int
    pieces: tuple[str | Parameter, ...]

    @property
    def reads(self) -> bool:
        """Whether it begins like a statement that changes no data."""
        return self._begins(_READS)

    @property
    def calls(self) -> bool:
        """Whether it calls a stored procedure."""
        return self._begins(("call",))

    def _begins(self, words: tuple[str, ...]) -> bool:
        first = self.pieces[0]
        return isinstance(first, str) and first.lstrip("( \t\n").lower().startswith(words)


def parse(text: str) -> tuple[SqlStatement, ...]:
    """Parse the statements of a file. Raises SqlError for the first mistake."""
    statements = _StatementReader(text.removeprefix("\ufeff").replace("\r\n", "\n")).statements()
    if not statements:
        raise SqlError(1, "there is no statement in it")
    return tuple(statements)


class _StatementReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.names: set[str] = set()
        self.begin()

    def begin(self) -> None:
        self.first: int | None = None
        self.pieces: list[str | Parameter] = []
        self.plain: list[str] = []

    def statements(self) -> list[SqlStatement]:
        statements: list[SqlStatement] = []
        while self.at < len(self.text):
            rest = self.text[self.at : self.at + 4]
            if rest[0] == ";":
                self.at += 1
                self.end(statements)
            elif rest[0] == "#" or _DASHES.match(self.text, self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif rest[:2] == "/*" and rest[2:3] not in ("!", "+") and rest[2:4] != "M!":
                self.comment()
            elif rest[0] in "'\"`":
                self.quoted(rest[0])
            elif rest[0] == "{":
                self.brace()
            else:
                self.take(1)
        self.end(statements)
        return statements

    def take(self, count: int) -> None:
        """Take the next characters as part of the statement."""
        piece = self.text[self.at : self.at + count]
        if self.first is None and not piece.isspace():
            self.first = self.line
            self.plain.clear()
            if re.match(r"delimiter\s", self.text[self.at : self.at + 10], re.IGNORECASE):
                raise SqlError(
                    self.line,
                    "DELIMITER is a command of the client; create procedures in data.sql",
                )
        self.plain.append(piece)
        self.line += piece.count("\n")
        self.at += count

    def comment(self) -> None:
        end = self.text.find("*/", self.at + 2)
        if end < 0:
            raise SqlError(self.line, "a comment begins here and does not end")
        lines = self.text.count("\n", self.at, end)
        self.plain.append(" " + "\n" * lines)
        self.line += lines
        self.at = end + 2

    def quoted(self, quote: str) -> None:
        opened = self.line
        self.take(1)
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "{":
                self.brace()
            elif character == "\\" and quote != "`":
                self.take(2)
            else:
                self.take(1)
                if character == quote:
                    return
        raise SqlError(opened, f"a text begins here with {quote} and does not end")

    def brace(self) -> None:
        opens = _OPENS.match(self.text, self.at)
        if self.text.startswith("{{", self.at):
            self.at += 1
            self.take(1)
        elif not opens:
            self.take(1)
        else:
            end = self.text.find("}", self.at)
            newline = self.text.find("\n", self.at)
            if end < 0 or 0 <= newline < end:
                raise SqlError(
                    self.line,
                    f"{self.text[self.at : newline if newline > 0 else None]!r}: no "
                    f"}} in this line; {_HINT}",
                )
            inside = self.text[self.at + 1 : end]
            if self.first is None:
                self.first = self.line
                self.plain.clear()
            self.flush()
            self.pieces.append(self.parameter(inside))
            self.at = end + 1

    def parameter(self, inside: str) -> Parameter:
        name, equals, rest = re.fullmatch(r"(?:(\w+)(=))?(.*)", inside, re.DOTALL).groups()  # type: ignore[union-attr]
        kind, colon, arguments = rest.partition(":")
        if not equals and not colon:
            if kind in KINDS:
                raise SqlError(self.line, f"{{{inside}}}: {kind} needs its bounds; {_HINT}")
            if kind not in self.names:
                raise SqlError(
                    self.line, f"{{{inside}}}: nothing is called {kind!r} so far; {_HINT}"
                )
            return Parameter(kind, None)
        if name in KINDS or name in self.names:
            why = "is drawn already" if name in self.names else "is a kind of parameter, not a name"
            raise SqlError(self.line, f"{{{inside}}}: {name!r} {why}")
        drawn = self.kind(kind, arguments, inside)
        if name:
            self.names.add(name)
        return Parameter(name, drawn)

    def kind(self, kind: str, arguments: str, inside: str) -> Int | String | Choice:
        match kind:
            case "int":
                bounds = re.fullmatch(r"(-?\d{1,16}):(-?\d{1,16})", arguments)
                if not bounds:
                    raise SqlError(
                        self.line, f"{{{inside}}}: int has two whole numbers, like {{int:1:1000}}"
                    )
                low, high = int(bounds[1]), int(bounds[2])
                if low > high:
                    raise SqlError(self.line, f"{{{inside}}}: {low} is more than {high}")
                if high - low > _WIDEST or max(abs(low), abs(high)) > _LARGEST:
                    raise SqlError(
                        self.line,
                        f"{{{inside}}}: at most {_WIDEST} numbers, none beyond {_LARGEST}",
                    )
                return Int(low, high)
            case "string":
                if not re.fullmatch(r"\d{1,5}", arguments) or not 1 <= int(arguments) <= _LONGEST:
                    raise SqlError(
                        self.line,
                        f"{{{inside}}}: string needs a length from 1 to {_LONGEST}, like "
                        f"{{string:20}}",
                    )
                return String(int(arguments))
            case "choice":
                texts = tuple(arguments.split("|"))
                if len(texts) < 2:
                    raise SqlError(
                        self.line,
                        f"{{{inside}}}: choice has texts to choose from, like {{choice:a|b}}",
                    )
                return Choice(texts)
        raise SqlError(self.line, f"{{{inside}}}: no parameter {kind!r}; {_HINT}")

    def flush(self) -> None:
        if self.plain:
            self.pieces.append("".join(self.plain))
            self.plain = []

    def end(self, statements: list[SqlStatement]) -> None:
        self.flush()
        if self.first is not None:
            if isinstance(last := self.pieces[-1], str):
                self.pieces[-1] = last.rstrip()
            statements.append(SqlStatement(self.first, tuple(p for p in self.pieces if p != "")))
        self.begin()


def rounds(statements: tuple[SqlStatement, ...]) -> int:
    """Return how often :func:`example` must fill the parameters in until every choice's text was
    used: twice at least.
    """
    choices = [
        p.kind
        for s in statements
        for p in s.pieces
        if isinstance(p, Parameter) and isinstance(p.kind, Choice)
    ]
    return max(2, *(len(c.texts) for c in choices)) if choices else 2


def example(statements: tuple[SqlStatement, ...], round_: int) -> list[str]:
    """Return the statements of one event with parameters filled in, not at random: both ends of
    ranges, each text in its turn.
    """
    named: dict[str, str] = {}
    return [
        "".join(p if isinstance(p, str) else _fill(p, round_, named) for p in s.pieces)
        for s in statements
    ]


def _fill(parameter: Parameter, round_: int, named: dict[str, str]) -> str:
    match parameter.kind:
        case None:
            return named[parameter.name or ""]
        case Int(low, high):
            value = str(high if round_ % 2 else low)
        case String(length):
            value = "ab"[round_ % 2] * length
        case Choice(texts):
            value = texts[round_ % len(texts)]
    if parameter.name:
        named[parameter.name] = value
    return value


def compile_lua(statements: tuple[SqlStatement, ...]) -> str:
    """Return the statements as a Lua table, for load/lua/dballoc_sql.lua."""
    lines = [f"  {{{', '.join(_lua(p) for p in s.pieces)}}}," for s in statements]
    return "return {\n" + "\n".join(lines) + "\n}\n"


def _lua(piece: str | Parameter) -> str:
    if isinstance(piece, str):
        return _lua_text(piece)
    name = f"name = {_lua_text(piece.name)}, " if piece.name else ""
    match piece.kind:
        case None:
            return f"{{{name.rstrip(', ')}}}"
        case Int(low, high):
            return f'{{{name}kind = "int", {low}, {high}}}'
        case String(length):
            return f'{{{name}kind = "string", {length}}}'
        case Choice(texts):
            return f'{{{name}kind = "choice", {", ".join(_lua_text(t) for t in texts)}}}'


def _lua_text(text: str) -> str:
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03}" for b in text.encode())
    return f'"{"".join(plain)}"'

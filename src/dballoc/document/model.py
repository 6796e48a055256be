"""What a document consists of, whatever it reports. Every form shows the same objects."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dballoc.ground.numbers import NOTHING, count

if TYPE_CHECKING:  # polars takes long to import, and explain needs none
    import polars as pl

# A topic of a post with more characters is folded on the page.
MANY_CHARACTERS = 1000


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells are text, ready to be read; a line break in one is meant. The first ``heads`` columns
    name the row, the columns in ``words`` hold words, and the rest hold numbers. ``faint``: indices
    of rows that stand back, such as the baseline against itself.
    """

    title: str
    columns: Sequence[str]
    rows: list[list[str]]
    caption: str = ""
    heads: int = 1
    words: Collection[str] = ()
    faint: Collection[int] = ()

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers."""
        return [i >= self.heads and c not in self.words for i, c in enumerate(self.columns)]

    def drop_columns(self, *headings: str) -> "Table":
        """Return the table without some columns, for a form that has less room."""
        kept = [i for i, column in enumerate(self.columns) if column not in headings]
        return replace(
            self,
            columns=[self.columns[i] for i in kept],
            rows=[[row[i] for i in kept] for row in self.rows],
        )


@dataclass(frozen=True)
class Column:
    """A column of a declared table. ``value``: a key or an attribute of the row, or a function of
    the row; if left out, the heading is the key. ``form`` writes a value that is neither
    None nor empty.
    ``words`` marks a column that holds words, not numbers.
    """

    heading: str
    value: str | Callable[[Any], Any] = ""
    form: Callable[[Any], str] = str
    words: bool = False

    def get_value(self, row: Any) -> Any:
        """Return the row's value, None if there is none."""
        if callable(self.value):
            return self.value(row)
        key = self.value or self.heading
        return row.get(key) if isinstance(row, Mapping) else getattr(row, key)

    def format_cell(self, row: Any) -> str:
        """Return the row's cell as text."""
        value = self.get_value(row)
        return NOTHING if value is None or value == "" else self.form(value)


def tabulate(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Any],
    *,
    caption: str = "",
    heads: int = 1,
    words: bool = False,
) -> Table:
    """Return a table with a row for each of ``rows``: mappings, or objects with attributes.
    ``words``: whether all columns hold words.
    """
    return Table(
        title=title,
        columns=[column.heading for column in columns],
        rows=[[column.format_cell(row) for column in columns] for row in rows],
        caption=caption,
        heads=heads,
        words=[column.heading for column in columns if words or column.words],
    )


# A table as CSV: rows, the headings first, or a data frame.
CsvTable: TypeAlias = "Sequence[Sequence[Any]] | pl.DataFrame"


@dataclass(frozen=True)
class Figure:
    """A chart: ``key`` names its files, ``caption`` says what to know about it; a screen reader
    reads title and caption. ``chart``: Vega-Lite, without a theme.
    """

    key: str
    title: str
    caption: str
    chart: dict[str, Any]


@dataclass(frozen=True)
class Listing:
    """Text shown as it is: a log's tail, a command, the experiment file."""

    title: str
    text: str


@dataclass(frozen=True)
class Embed:
    """A flame graph: ``html``, an element of the page; ``page``: the same as a page of its own,
    ``charts/KEY.html``.
    """

    key: str
    title: str
    html: str
    page: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with its text, figures, tables, listings and flame graphs."""

    key: str
    title: str
    text: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    embeds: list[Embed] = field(default_factory=list)


@dataclass(frozen=True)
class VariantLine:
    """What is said of one variant."""

    name: str
    text: str


@dataclass(frozen=True)
class PostTopic:
    """A topic in which a run differs from the post that it repeats: the number of ``differences``,
    and in ``lines`` what they are, and why, as far as the experiment says it.
    """

    name: str
    lines: list[str]
    differences: int

    @property
    def title(self) -> str:
        """``options, 12 differences``."""
        number = f", {count(self.differences, 'difference')}" if self.differences > 1 else ""
        return f"{self.name}{number}"

    @property
    def is_long(self) -> bool:
        """Whether a page folds it."""
        return sum(map(len, self.lines)) > MANY_CHARACTERS


@dataclass(frozen=True)
class PostNote:
    """All that differs from a post: which post and how much, then topic by topic; ``silent``: what
    the run has chosen where the post says nothing.
    """

    intro: str
    topics: list[PostTopic]
    silent: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``headline`` and ``reason``: what to use and why; ``command``: what would settle it; the
    ``table``; in what the run differs from the post that it repeats; what to know. Where there is
    no such table, one line a variant, under the heading ``against``.
    """

    headline: str
    reason: str
    command: str = ""
    table: Table | None = None
    against: str = ""
    variants: list[VariantLine] = field(default_factory=list)
    post: PostNote | None = None
    notes: list[str] = field(default_factory=list)


# What every form says where names were replaced.
REPLACED = "Names of the host and of users, and paths, were replaced in this report."


@dataclass(frozen=True, kw_only=True)
class Document:
    """A title, an answer and sections. ``names``: of the variants, the first one first in every
    legend. ``screen``: the sections that the terminal shows beside the answer. ``data``: what is
    written to ``DATA_NAME.json``, as plain data. ``csv``: makes the tables for csv/, by name.
    """

    title: str
    subtitle: str
    names: list[str]
    answer: Answer
    sections: list[Section]
    screen: Sequence[Section] = ()
    data_name: str = ""
    data: Any = None
    csv: Callable[[], Mapping[str, CsvTable]] = dict

    @property
    def figures(self) -> list[Figure]:
        """All charts."""
        return [figure for section in self.sections for figure in section.figures]

    @property
    def embeds(self) -> list[Embed]:
        """All flame graphs."""
        return [embed for section in self.sections for embed in section.embeds]

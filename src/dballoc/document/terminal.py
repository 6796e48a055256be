"""A document on the terminal: its answer, and tables in one style."""

from collections.abc import Collection, Iterable, Sequence
from textwrap import wrap

from rich.console import Console, JustifyMethod
from rich.table import Table as Grid
from rich.text import Text

from dballoc.document.model import Answer, Document, PostNote, Section, Table

# The width of a heading above numbers.
_NARROW = 9


def start_grid(
    headings: Sequence[str], numbers: Collection[int] = (), unbroken: Collection[int] = ()
) -> Grid:
    """Return a table without rows in the style of all tables. ``numbers``: the indices of columns
    that stand at the right; ``unbroken``: of those that are not broken into lines.
    """
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for i, heading in enumerate(headings):
        grid.add_column(
            Text("\n".join(wrap(heading, _NARROW)) if i in numbers else heading),
            justify="right" if i in numbers else "left",
            no_wrap=i in unbroken,
            overflow="fold",
        )
    return grid


def start_list(headings: Sequence[str], texts: Collection[str] = ()) -> Grid:
    """Return the same with every heading on one line. ``texts``: the headings of columns that are
    no numbers.
    """
    grid = start_grid([])
    for heading in headings:
        side: JustifyMethod = "left" if heading in texts else "right"
        grid.add_column(Text(heading), justify=side, no_wrap=side == "right", overflow="fold")
    return grid


def lay_out_table(table: Table) -> Grid:
    """Return a table of a document, without its title and caption."""
    numbers = [i for i, is_number in enumerate(table.numeric) if is_number]
    grid = start_grid(table.columns, numbers, {0, *numbers})
    grid.show_header = any(table.columns)
    for i, row in enumerate(table.rows):
        grid.add_row(*map(Text, row), style="dim" if i in table.faint else None)
    return grid


def print_table(console: Console, table: Table) -> None:
    """Print title, table and caption."""
    if table.title:
        console.print(Text(table.title, style="bold"))
    console.print(lay_out_table(table))
    if table.caption:
        console.print(Text(table.caption, style="dim"))


def print_sections(console: Console, sections: Iterable[Section]) -> None:
    """Print titles, texts and tables of sections, an empty line between them."""
    for number, section in enumerate(sections):
        if number:
            console.print()
        if section.title:
            console.print(Text(section.title, style="bold"))
        for text in section.text:
            console.print(Text(text))
        for table in section.tables:
            print_table(console, table)


def print_document(console: Console, document: Document) -> None:
    """Print the answer, and what the terminal shows beside it."""
    print_answer(console, document.answer, document.screen)


def print_answer(console: Console, answer: Answer, sections: Sequence[Section] = ()) -> None:
    """Print headline, reason, command, table, sections and notes, as they stand on the page."""
    console.print(Text(answer.headline, style="bold"))
    if answer.reason:
        console.print(Text(answer.reason))
    if answer.command:
        console.print(f"  {answer.command}", soft_wrap=True, highlight=False, markup=False)
    console.print()
    if answer.table:
        console.print(lay_out_table(answer.table))
        if answer.table.caption:
            console.print(Text(answer.table.caption, style="dim"))
        console.print()
    if answer.variants:
        console.print(
            Text(answer.against, style="bold"),
            *(Text(f"  {x.name}: {x.text}") for x in answer.variants),
            "",
            sep="\n",
        )
    if sections:
        print_sections(console, sections)
        console.print()
    if answer.post:
        _print_post(console, answer.post)
    for note in answer.notes:
        console.print(Text(f"· {note}", style="dim"))


def _print_post(console: Console, post: PostNote) -> None:
    """Print in what a run differs from its post, each topic indented."""
    console.print(Text(f"· {post.intro}", style="dim"))
    for topic in post.topics:
        if len(topic.lines) == 1:
            _print_indented(console, 4, f"{topic.title}: {topic.lines[0]}")
            continue
        _print_indented(console, 4, f"{topic.title}:")
        for line in topic.lines:
            _print_indented(console, 6, line)
    if post.silent:
        _print_indented(console, 4, post.silent)


def _print_indented(console: Console, columns: int, text: str) -> None:
    """Print a text so many columns from the left, on as many lines as it takes."""
    for line in Text(text, style="dim").wrap(console, max(20, console.width - columns)):
        line.rstrip()
        console.print(Text(" " * columns) + line)

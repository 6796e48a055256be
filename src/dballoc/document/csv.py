"""Tables as CSV. A spreadsheet takes a text that begins like a formula for one, whoever wrote it:
such texts are escaped. Pure.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from dballoc.document.model import CsvTable
from dballoc.ground.files.output_directory import OutputDirectory

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def escape_formula(cell: Any) -> Any:
    """Return a cell unchanged, except that a text that is not a number and begins like a formula
    gets an apostrophe before it.
    """
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def escape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose texts and headings went through :func:`escape_formula`."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    changed = [
        pl.Series(name, [escape_formula(cell) for cell in frame[name]], dtype=pl.String)
        for name in texts
    ]
    return frame.with_columns(changed).rename(
        {name: escape_formula(name) for name in frame.columns}
    )


def format_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows, the headings first, as the text of a CSV file."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def write_csv(name: str, table: CsvTable, directory: OutputDirectory) -> None:
    """Write ``NAME.csv``. Raises OSError if that fails."""
    with directory.create_file(f"{name}.csv") as file:
        if isinstance(table, pl.DataFrame):
            escape_formulas(table).write_csv(file)
        else:
            file.write(format_csv(table).encode())


def make_frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Return rows as a data frame, whose types are those of all values."""
    return pl.DataFrame(rows, schema=list(columns), orient="row", infer_schema_length=None)

"""The sections of a saved snapshot, read back."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from dballoc.explain.checklist.section import Bytes, Section

_Place = Annotated[list[int], Field(min_length=2, max_length=2)]


class _SavedSection(BaseModel):
    """A section as :meth:`Section.as_json` writes it; before dballoc wrote ``note`` and ``bytes``,
    they were missing.
    """

    model_config = ConfigDict(strict=True)

    title: str
    source: str
    columns: Annotated[list[str], Field(min_length=1, max_length=40)]
    rows: Annotated[list[list[str | int | float | None]], Field(max_length=10_000)]
    missing: str | None = None
    note: str | None = None
    bytes: Annotated[list[_Place], Field(max_length=400_000)] = []


_SAVED = TypeAdapter(Annotated[list[_SavedSection], Field(max_length=100)])


def parse_sections(saved: Any) -> list[Section]:
    """Return the sections of a saved snapshot. pydantic.ValidationError or ValueError for anything
    else.
    """
    sections = []
    for part in _SAVED.validate_python(saved):
        if any(len(row) != len(part.columns) for row in part.rows):
            raise ValueError("procedure: a row has not as many cells as there are columns")
        sizes = {(number, column) for number, column in part.bytes}
        sections.append(
            Section(
                title=part.title,
                source=part.source,
                columns=tuple(part.columns),
                rows=[
                    tuple(
                        Bytes(cell) if isinstance(cell, int) and (number, i) in sizes else cell
                        for i, cell in enumerate(row)
                    )
                    for number, row in enumerate(part.rows)
                ],
                missing=part.missing,
                note=part.note,
            )
        )
    return sections

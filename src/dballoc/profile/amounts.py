"""Format a profile's numbers for people: bytes, seconds, counts."""

_STEPS = {
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}


def format_amount(number: float, unit: str) -> str:
    """Format a number like ``12.3 MiB``, ``4.56 ms`` or ``1,023 B``: three significant digits,
    without zeros at the end.
    """
    steps = _STEPS.get(unit)
    if steps is None:
        return f"{number:,.0f}"
    for size, name in steps:
        if abs(number) >= size:
            return f"{_format_three_digits(number / size)} {name}"
    if not number:
        return "0 B" if unit == "bytes" else "0 s"
    return f"{_format_three_digits(number / steps[-1][0])} {steps[-1][1]}"


def format_signed_amount(number: float, unit: str) -> str:
    """Format a number as :func:`format_amount` does, with its sign."""
    return f"{'−' if number < 0 else '+'}{format_amount(abs(number), unit)}"


def _format_three_digits(number: float) -> str:
    size = abs(number)
    text = f"{number:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

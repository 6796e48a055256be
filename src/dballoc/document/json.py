"""A document's figures as JSON, for programs."""

import json
from typing import Any


def dump_json(value: Any) -> str:
    """Return plain data as the text of a JSON file. Raises ValueError if a number is not finite."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

"""What a page's charts need in the page: Vega's code and their data, in forms that can stand in a script element."""

import json
from typing import Any

import altair as alt
import vl_convert

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])

_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"})


def library() -> str:
    """Vega, Vega-Lite and vega-embed. In their strings alone could there be an end of the element."""
    code: str = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]  # its stub lacks the default
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def json_text(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end that element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)

"""What ``GET /metrics`` answers: the last look as OpenMetrics, and what the exporter does itself.
Pure.
"""

from dballoc.explain.exporter.look_cache import ServedLook
from dballoc.explain.output import openmetrics

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END = "# EOF\n"


def render_metrics(served: ServedLook) -> str:
    """Return all metrics; without a server only the exporter's own, with ``dballoc_up`` 0."""
    look = served.explanation
    gauge, counter = openmetrics.format_gauge, openmetrics.format_counter
    return "".join(
        [
            openmetrics.render_openmetrics(look).removesuffix(_END) if look else "",
            gauge("dballoc_up", "", "1 if the server could be looked at.", [({}, int(bool(look)))]),
            gauge(
                "dballoc_look_age",
                "seconds",
                "How long ago the look was taken whose figures these are.",
                [({}, round(served.age, 3))],
            ),
            gauge(
                "dballoc_look_cpu",
                "seconds",
                "CPU time of that look.",
                [({}, round(served.cost, 6))],
            ),
            gauge(
                "dballoc_look_pause",
                "seconds",
                "The least time from one look to the next; what is asked between is served again.",
                [({}, round(served.pause, 3))],
            ),
            counter("dballoc_looks", "", "Looks since the exporter started.", [({}, served.looks)]),
            counter(
                "dballoc_look_failures",
                "",
                "Looks that found no server, or one that could not be read.",
                [({}, served.failures)],
            ),
            _END,
        ]
    )

"""The forms of an explanation: page, charts, OpenMetrics, saved snapshots."""

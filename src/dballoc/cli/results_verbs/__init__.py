"""The verbs that take what was measured: report, compare, combine, deploy, import."""

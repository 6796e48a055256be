"""The verbs on results: report, compare, combine, deploy, import."""

"""The charts, one file per subject; :mod:`dballoc.document.chart_theme` has their colours."""

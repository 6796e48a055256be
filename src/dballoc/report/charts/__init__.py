"""The charts, one file per subject; :mod:`dballoc.webpage.chart_theme` has their colours."""

"""Ratios, intervals, verdicts, growth and collapse, on data frames. Pure: it reads results through
the store alone.
"""

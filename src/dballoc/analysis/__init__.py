"""Pure, on data frames: ratios, intervals, verdicts, growth, collapse. Sees results through the
store alone.
"""

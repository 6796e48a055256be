"""What is decided from figures: verdicts, the sequential test, conditions of a build, the
recommendation. Pure.
"""

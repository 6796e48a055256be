"""What is decided from the figures: verdicts, the sequential test, the stopping rule, conditions of
a build, the recommendation. Pure.
"""

"""Files and directories: the one writer of outputs, and the one opener of files that others made or
named.
"""

"""dballoc: which malloc should this MySQL-family server run on, where does its memory go,
and why.
"""

__version__ = "0.1.0"

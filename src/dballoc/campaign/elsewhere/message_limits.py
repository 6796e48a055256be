"""The bound of what hosts say to each other, which Ray's side of a host must know as well. Imports
nothing, because that side must start quickly.
"""

# The most bytes of a line: of a trial with a sample a second for a day.
LONGEST_LINE = 64 * 2**20

"""How much a recording of waits may be."""

# At most about so many call stacks of switches are recorded, and a third as many of wake-ups. Each
# takes 32 KiB until it is read, and some milliseconds of CPU to read.
MAX_STACKS = 3_000
# What a recording may take on disk: perf's own limit, and copies of the files that it needs to
# unwind. perf script's text is not written to disk.
PERF_DISK_BYTES = 4 << 30

"""/proc/PID/smaps and maps: the paths, and how many there are, are the process's own."""

from dballoc.process import smaps

OF = ("dballoc.process.smaps", "dballoc.host.process.maps")
PRIVILEGED = True

_GOOD = b"""55d000000000-55d000001000 r--p 00000000 08:01 1 /usr/sbin/mariadbd
Size:                  4 kB
Rss:                   4 kB
LazyFree:              0 kB
AnonHugePages:         0 kB
Swap:                  0 kB
VmFlags: rd mr mw me sd
7f0000000000-7f0004000000 rw-p 00000000 00:00 0
Rss:                 512 kB
VmFlags: rd wr mr mw me ac nr
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  16 kB
VmFlags: rd wr mr mw me gd ac
"""


def seeds() -> list[bytes]:
    return [_GOOD, b"\n".join(line for line in _GOOD.splitlines() if b"-p " in line)]


def fuzz(data: bytes) -> None:
    for mapping in smaps.parse_smaps(data.decode(errors="replace")):
        assert mapping.size >= 0
        assert mapping.rss >= 0
        assert {mapping.file, mapping.private, mapping.special, mapping.guard} <= {True, False}

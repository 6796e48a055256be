"""/proc/PID/stat, status, cgroup, uid_map, net/unix, environ and cmdline: the process chooses its name and its arguments."""

from dballoc.allocators import identify
from dballoc.host import inside, limits
from dballoc.measure import process

OF = ("dballoc.measure.process", "dballoc.host.inside", "dballoc.host.limits", "dballoc.allocators.identify")
PRIVILEGED = True

_STATUS = b"""Name:\tmariadbd
Uid:\t110\t110\t110\t110
NSpid:\t77\t1
VmPeak:\t 1034000 kB
VmSize:\t 1033996 kB
VmHWM:\t  181180 kB
VmRSS:\t  179360 kB
VmData:\t  300000 kB
voluntary_ctxt_switches:\t150
nonvoluntary_ctxt_switches:\t545
"""
_UNIX = b"""Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 27653 /run/mysqld/mysqld.sock
"""
_CGROUP = b"4:memory:/system.slice/mariadb.service\n1:cpu,cpuacct:/a\n0::/user.slice\n"


def seeds() -> list[bytes]:
    return [_STATUS, _UNIX, _CGROUP, b"         0       1000          1\n", b"A=1\0LD_PRELOAD=/a.so:/b.so\0MALLOC_CONF=x\0"]


def fuzz(data: bytes) -> None:
    text = data.decode(errors="replace")
    process._sizes(data)
    process._switches(data)
    inside.mapped(text, 1000)
    inside.sockets(text, {"27653"})
    limits._groups(text)
    identify._environment(data)

"""/proc/PID/stat, status, cgroup, uid_map, net/unix, environ, cmdline and auxv: the process chooses its
name and its arguments. And lists of CPUs and /proc/stat, which a container's may have from lxcfs.
"""

import contextlib
import struct

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.host.process import handle, process_root
from dballoc.host.resources import cgroup_memory, cgroup_tree
from dballoc.instruments import host_sampler, process_sampler

OF = (
    "dballoc.instruments.process_sampler",
    "dballoc.host.process.process_root",
    "dballoc.host.process.handle",
    "dballoc.host.resources.cgroup_memory",
    "dballoc.host.resources.cgroup_tree",
    "dballoc.instruments.host_sampler",
    "dballoc.experiment.cpu_list",
)
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
    return [
        _STATUS,
        _UNIX,
        _CGROUP,
        b"         0       1000          1\n",
        b"syscw: 0\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n",
        b"0-3,8-11,64\n",
        b"cpu  1 2 3 4 5 6 7 8\ncpu0 10 0 5 100 0 0 0 1 0 0\nctxt 5\n",
        struct.pack("=6Q", 16, 7, 6, 65536, 0, 0),
        b"A=1\0LD_PRELOAD=/a.so:/b.so\0MALLOC_CONF=x\0",
    ]


def fuzz(data: bytes) -> None:
    text = data.decode(errors="replace")
    process_sampler._parse_sizes(data)
    process_sampler._parse_switches(data)
    process_sampler.parse_written(data)
    process_root.map_uid(text, 1000)
    handle.parse_auxiliary(data)
    handle.parse_status(text)
    for parse in (
        handle.split_stat,
        lambda t: handle.parse_users(_STATUS.decode(), t),
    ):
        with contextlib.suppress(ProcessLookupError):
            parse(text)
    process_root.parse_listening_sockets(text, {"27653"})
    cgroup_tree.parse_groups(text)
    cgroup_tree.parse_flat_keyed(text)
    cgroup_memory.parse_pressure(text)
    handle.parse_environment(data, "replace")
    host_sampler.parse_cpu_time(text, 100)
    with contextlib.suppress(ValueError):
        assert parse_cpus(format_cpus(parse_cpus(text))) == parse_cpus(text)

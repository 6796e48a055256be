"""SHOW ENGINE INNODB STATUS of several servers."""

# What follows the section in every version.
AFTER = """--------------
ROW OPERATIONS
--------------
0 queries inside InnoDB, 0 queries in queue
Database pages 99999
----------------------------
END OF INNODB MONITOR OUTPUT
============================
"""


BEFORE = """
=====================================
2026-11-21 12:00:00 0x7f0d INNODB MONITOR OUTPUT
=====================================
Buffer pool size   1
---
LOG
---
Log sequence number 46430
----------------------
BUFFER POOL AND MEMORY
----------------------
"""


# MySQL 5.5, its reference manual.
MYSQL_55 = """Total memory allocated 137363456; in additional pool allocated 0
Dictionary memory allocated 29282
Buffer pool size   8191
Free buffers       8036
Database pages     155
Old database pages 0
Modified db pages  0
Pending reads 0
Pending writes: LRU 0, flush list 0, single page 0
Pages made young 0, not young 0
0.00 youngs/s, 0.00 non-youngs/s
Pages read 155, created 0, written 1
0.00 reads/s, 0.00 creates/s, 0.00 writes/s
No buffer pool page gets since the last printout
LRU len: 155, unzip_LRU len: 0
I/O sum[0]:cur[0], unzip sum[0]:cur[0]
"""


# Percona Server 5.5 to 5.7, "Extended SHOW ENGINE INNODB STATUS"; MariaDB up to 10.1 (XtraDB)
# prints the same.
PERCONA = """Total memory allocated 137363456; in additional pool allocated 0
Total memory allocated by read views 88
Internal hash tables (constant factor + variable factor)
    Adaptive hash index 2266736         (2213368 + 53368)
    Page hash           139112 (buffer pool 0 only)
    Dictionary cache    729463 \t(554768 + 174695)
    File system         824800  (812272 + 12528)
    Lock system         333248  (332872 + 376)
    Recovery system     0       (0 + 0)
Dictionary memory allocated 174695
Buffer pool size        8191
Buffer pool size, bytes 134201344
Free buffers            7481
Database pages          707
Old database pages      280
Modified db pages       0
Pending reads 0
Pending writes: LRU 0, flush list 0 single page 0
Pages made young 0, not young 0
0.00 youngs/s, 0.00 non-youngs/s
Pages read 707, created 0, written 1
0.00 reads/s, 0.00 creates/s, 0.00 writes/s
Buffer pool hit rate 998 / 1000, young-making rate 0 / 1000 not 0 / 1000
Pages read ahead 0.00/s, evicted without access 0.00/s, Random read ahead 0.00/s
LRU len: 707, unzip_LRU len: 0
"""

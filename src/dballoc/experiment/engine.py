"""The storage engines that an experiment's data may be in."""

from typing import Literal

Engine = Literal["innodb", "rocksdb", "aria", "myisam"]

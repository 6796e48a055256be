"""The parts of the catalogue that ``dballoc list`` knows."""

from typing import Literal

Part = Literal["allocators", "servers", "workloads", "experiments", "settings"]

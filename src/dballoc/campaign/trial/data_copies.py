"""The servers' copies of the data templates. If the campaign permits it, the copy of a server that
only read and was shut down in order is used again: nothing is copied or read from disk.
"""

import os
import random
from dataclasses import dataclass
from pathlib import Path

from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers.private.data_template import Template

# Where InnoDB writes at shutdown which pages its buffer pool had, and reads at startup which to
# load in the background. dballoc's servers write none, unless the experiment's options say so. The
# option names another file.
_POOL_DUMP, _POOL_DUMP_OPTION = "ib_buffer_pool", "innodb_buffer_pool_filename"

# What a copy suits: its template, the server's executable, its options.
_Use = tuple[Path, str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class DataCopy:
    """A server's scratch directory, with its data in ``data`` once they are copied."""

    scratch: Path
    use: _Use

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.scratch / "data"


class DataCopies:
    """The copies of a campaign, for servers of ``user``. ``again``: whether they may be used again;
    ``most``: how many there may be at once, those that wait for their next server included.
    """

    def __init__(self, custody: Custody, user: ServerUser, again: bool, most: int) -> None:
        self._custody = custody
        self._user = user
        self._again = again
        self._most = most
        self._waiting: list[DataCopy] = []
        self._taken = 0
        self._draw = random.Random("data copies")

    def take(self, template: Template, prepared: PreparedVariant) -> DataCopy:
        """Return a copy that a server of the same build and options left, else a scratch directory
        for a new one. Of several one is drawn: the baseline's first server asks first in every
        block, and would always have one of the same two.
        """
        use = template.data, str(prepared.build.executable), frozenset(prepared.options.items())
        self._taken += 1
        if fitting := [copy for copy in self._waiting if copy.use == use]:
            copy = self._draw.choice(fitting)
            self._waiting.remove(copy)
            return copy
        while self._waiting and self._taken + len(self._waiting) > self._most:
            remove_directory(self._waiting.pop(0).scratch)
        return DataCopy(directories.make_server_scratch(self._custody.scratch, self._user), use)

    def fill(self, copy: DataCopy, template: Template, log: Path) -> None:
        """Copy the template, unless the data are there. Raises OSError if they cannot be copied."""
        if not copy.data.exists():
            template.copy(self._custody, copy.data, log, self._user)

    def give_back(self, copy: DataCopy, unchanged: bool) -> None:
        """Keep a copy for the next server if its data are ``unchanged``, else remove it. What waits
        at the campaign's end the guardian removes.
        """
        self._taken -= 1
        if unchanged and self._again and _forget_pool(copy):
            self._waiting.append(copy)
        else:
            remove_directory(copy.scratch)


def _forget_pool(copy: DataCopy) -> bool:
    """Remove what a server noted of its buffer pool, which the next one would load while it is
    measured: the template has none. False where the data cannot be restored.
    """
    template, _, options = copy.use
    name = dict(options).get(_POOL_DUMP_OPTION, _POOL_DUMP)
    note = copy.data / name
    if Path(name).name != name or (template / name).exists() or note.is_dir():
        return False
    # The directory is in one that only root may write, so no server can have replaced it.
    remove_tree(note)
    return not os.path.lexists(note)

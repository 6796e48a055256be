"""Which blocks a campaign has finished, at which attempt, and which of them are repeated. Pure."""

from collections.abc import Iterable, Mapping

from dballoc.store.rows import BlockRow


class BlockHistory:
    """The finished attempts at blocks of each design: rows of table ``block``. ``most_repeats``: of
    a design's disturbed blocks. ``judged``: the number of blocks of each design that a look has
    judged already; these are not repeated, as its verdicts would change.

    Whether an attempt is repeated is decided when it is added, and stands: a block whose repeat is
    under way, or was lost with its host, is not complete, and no other gets that repeat.
    """

    def __init__(
        self,
        rows: Mapping[str, Iterable[BlockRow]],
        most_repeats: int,
        judged: Mapping[str, int] | None = None,
    ) -> None:
        self._most_repeats = most_repeats
        self._judged = judged or {}
        # By design, block and attempt: those that were repeated, or are to be.
        self._repeated: dict[str, set[tuple[int, int]]] = {design: set() for design in rows}
        self._attempts: dict[str, dict[int, list[int]]] = {design: {} for design in rows}
        for design, design_rows in rows.items():
            by_place = {(row.block, row.attempt): row for row in design_rows}
            for block, attempt in sorted(by_place):
                if earlier := self._attempts[design].setdefault(block, []):
                    self._repeated[design].add((block, earlier[-1]))
                earlier.append(attempt)
            for block, attempts in sorted(self._attempts[design].items()):
                self._decide(design, by_place[block, attempts[-1]])

    def add(self, row: BlockRow) -> None:
        """Add a finished attempt."""
        attempts = self._attempts[row.design].setdefault(row.block, [])
        attempts.append(row.attempt)
        attempts.sort()
        self._decide(row.design, row)

    def _decide(self, design: str, row: BlockRow) -> None:
        """Decide whether a block's last attempt is repeated: it was disturbed, no look has judged
        it, and the design has repeats left.
        """
        if (
            row.disturbed is not None
            and row.block > self._judged.get(design, 0)
            and len(self._repeated[design]) < self._most_repeats
        ):
            self._repeated[design].add((row.block, row.attempt))

    def keep(self, design: str, block: int) -> None:
        """Take a block's last attempt, disturbed or not: the budget has no room."""
        self._repeated[design].discard((block, self._attempts[design][block][-1]))

    def has_attempt(self, design: str, block: int, attempt: int) -> bool:
        """Whether this attempt is finished."""
        return attempt in self._attempts[design].get(block, ())

    def find_last_attempt(self, design: str, block: int) -> int | None:
        """Return the last finished attempt at a block; None before the first."""
        return max(self._attempts[design].get(block, ()), default=None)

    def choose_attempt(self, design: str, block: int, begun: Iterable[int]) -> int | None:
        """Return the attempt at a block that is to be run next; None if the block is complete.
        ``begun``: the attempts that have trials. An attempt that was interrupted is repeated whole:
        its trials would be from before and after the break.
        """
        if self.is_complete(design, block):
            return None
        last_finished = self.find_last_attempt(design, block)
        begun_attempts = [a for a in begun if not self.has_attempt(design, block, a)]
        last = -1 if last_finished is None else last_finished
        return max([last, *begun_attempts]) + 1

    def is_complete(self, design: str, block: int) -> bool:
        """Whether a block has a finished attempt that is not repeated."""
        last = self.find_last_attempt(design, block)
        return last is not None and (block, last) not in self._repeated[design]

    def list_attempted_blocks(self, design: str) -> set[int]:
        """Return the blocks with a finished attempt, disturbed or not."""
        return set(self._attempts[design])

    def list_complete_blocks(self, design: str) -> set[int]:
        """Return the blocks whose last attempt stands."""
        return {block for block in self._attempts[design] if self.is_complete(design, block)}

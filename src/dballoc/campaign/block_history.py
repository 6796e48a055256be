"""Which blocks a campaign has finished, at which attempt, and which of them are repeated. Pure."""

from collections.abc import Iterable, Mapping

from dballoc.store.results import Row


class BlockHistory:
    """The finished attempts at blocks of each design: rows of table ``block``. ``most_repeats``: of
    a design's disturbed blocks. ``judged``: the number of blocks of each design that a look has
    judged already; these are not repeated, as its verdicts would change.
    """

    def __init__(
        self,
        rows: Mapping[str, Iterable[Row]],
        most_repeats: int,
        judged: Mapping[str, int] | None = None,
    ) -> None:
        self._rows = {
            design: {(row["block"], row["attempt"]): row for row in design_rows}
            for design, design_rows in rows.items()
        }
        self._most_repeats = most_repeats
        self._judged = judged or {}

    def add(self, row: Row) -> None:
        """Add a finished attempt."""
        self._rows[row["design"]][row["block"], row["attempt"]] = row

    def has_attempt(self, design: str, block: int, attempt: int) -> bool:
        """Whether this attempt is finished."""
        return (block, attempt) in self._rows[design]

    def find_last_attempt(self, design: str, block: int) -> int | None:
        """Return the last finished attempt at a block; None before the first."""
        return max((a for b, a in self._rows[design] if b == block), default=None)

    def choose_attempt(self, design: str, block: int, begun: Iterable[int]) -> int | None:
        """Return the attempt at a block that is to be run next; None if the block is complete.
        ``begun``: the attempts that have trials. One that was cut, whose trials are from before and
        after the break, is repeated whole.
        """
        last_finished = self.find_last_attempt(design, block)
        if last_finished is not None and not self.needs_repeat(design, block, last_finished):
            return None
        begun_attempts = [a for a in begun if not self.has_attempt(design, block, a)]
        last = -1 if last_finished is None else last_finished
        return max([last, *begun_attempts]) + 1

    def needs_repeat(self, design: str, block: int, attempt: int) -> bool:
        """Whether a finished attempt was disturbed and the whole block must be repeated, which a
        design does only so many times.
        """
        rows = self._rows[design]
        if rows[block, attempt]["disturbed"] is None or (block, attempt + 1) in rows:
            return False
        if block <= self._judged.get(design, 0):
            return False
        # An attempt that was cut has no row: the one after it is no repeat of a disturbed block.
        repeats = len(rows) - len({b for b, _ in rows})
        return repeats < self._most_repeats

    def list_attempted_blocks(self, design: str) -> set[int]:
        """Return the blocks with a finished attempt, disturbed or not."""
        return {block for block, _ in self._rows[design]}

    def list_complete_blocks(self, design: str) -> set[int]:
        """Return the blocks that are not repeated again."""
        return {
            block
            for block, attempt in self._rows[design]
            if not self.needs_repeat(design, block, attempt)
        }

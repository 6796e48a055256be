"""Many integers as varints at once: seven bits a byte, lowest first, the top bit set in all bytes
but the last (LEB128, as in DWARF 5, section 7.6). Pure.
"""

import numpy as np
from numpy.typing import NDArray

# Of 64 bits.
LONGEST = 10


class InvalidVarints(Exception):
    """The bytes are not varints of 64 bits, or not as many as there should be."""


def encode_varints(values: NDArray[np.uint64]) -> bytes:
    """Return the varints of unsigned integers, one after another."""
    values = np.ascontiguousarray(values, dtype=np.uint64)
    lengths = np.ones(len(values), np.int64)
    for count in range(1, LONGEST):
        longer = values >= np.uint64(1 << (7 * count))
        if not longer.any():
            break
        lengths += longer
    ends = np.cumsum(lengths)
    starts = ends - lengths
    encoded = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(int(lengths.max(initial=0))):
        chosen = slice(None) if place == 0 else np.flatnonzero(lengths > place)
        septets = (values[chosen] >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        more = (lengths[chosen] > place + 1).astype(np.uint8) << np.uint8(7)
        encoded[starts[chosen] + place] = septets | more
    return encoded.tobytes()


def decode_varints(encoded: bytes | memoryview, count: int) -> NDArray[np.uint64]:
    """Return the ``count`` integers that these bytes hold. Raises InvalidVarints if they hold
    another number of them, or one of more than 64 bits.
    """
    octets = np.frombuffer(encoded, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(ends) != count or (len(octets) and octets[-1] >= 0x80):
        raise InvalidVarints(f"{len(ends)} numbers where there should be {count}")
    if count == len(octets):
        return octets.astype(np.uint64)
    starts = np.empty(count, np.int64)
    starts[:1] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > LONGEST or (longest == LONGEST and (octets[ends[lengths == LONGEST]] > 1).any()):
        raise InvalidVarints("a number of more than 64 bits")
    values = (octets[starts] & np.uint8(0x7F)).astype(np.uint64)
    for place in range(1, longest):
        chosen = np.flatnonzero(lengths > place)
        septets = (octets[starts[chosen] + place] & np.uint8(0x7F)).astype(np.uint64)
        values[chosen] |= septets << np.uint64(7 * place)
    return values


def encode_signs(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 0, 1, 2, 3, … for 0, −1, 1, −2, …, so that small ones stay short (zigzag, as in
    Protocol Buffers).
    """
    return ((values << np.int64(1)) ^ (values >> np.int64(63))).view(np.uint64)


def decode_signs(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return what :func:`encode_signs` was given."""
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)

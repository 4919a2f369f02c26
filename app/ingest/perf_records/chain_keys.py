"""Numbers for call chains, by which equal ones are recognized without a copy of them."""

import hashlib
import secrets

import numpy as np

from ...domain.arrays import Array, Int64Array

BLOCK_WORDS = 1 << 16
"""Words whose records are read together: they and what is calculated from them fit into the cache of a CPU."""
MAX_RECORD_WORDS = 1 << 13
MAX_POLYNOMIAL_WORDS = 200
"""Sequences that have the same number for all factors have at least 512 words. perf records 127 frames by default."""
_HALF = np.uint64(32)


def make_weights() -> Array:
    """Random numbers (uint64) for compiled loops: one that is combined with each word, an odd factor, and a weight for
    each word of a chain. No file can be made whose chains have the same sum for all weights (multilinear hashing)."""
    weights = np.frombuffer(secrets.token_bytes(8 * (2 + MAX_RECORD_WORDS)), np.uint64).copy()
    weights[1] |= np.uint64(1)
    return weights


class ChainKeys:
    """Makes 64-bit numbers of chains, which differ for different chains: a polynomial of their words, modulo 2**64.

    The words of a block of the file are weighted by the powers of a factor and summed up, so that a chain is the
    difference of two sums. What words count, and the factor, are random. Very long sequences could be made that have
    the same number for all factors; so long chains, of which perf makes few, have a keyed hash.
    """

    def __init__(self) -> None:
        self._secret = np.uint64(secrets.randbits(64))
        self._spread = np.uint64(secrets.randbits(64) | 1)
        factor = secrets.randbits(64) | 5
        self._hash_key = secrets.token_bytes(16)
        self._powers = _make_powers(factor)
        self._inverse_powers = _make_powers(pow(factor, -1, 1 << 64))

    def mix(self, values: Array) -> Array:
        """Numbers (uint64), different for different values, of which all bits depend on all bits of `values`."""
        mixed: Array = values ^ self._secret
        for _ in range(2):
            mixed *= self._spread
            mixed ^= mixed >> _HALF
        return mixed

    def hash_chains(self, block: Array, start: Int64Array, length: Array) -> Array:
        """The numbers of chains in a block of words that has at most BLOCK_WORDS + MAX_RECORD_WORDS."""
        words = self.mix(block)
        words *= self._powers[: len(block)]
        sums = np.zeros(len(block) + 1, np.uint64)
        np.add.accumulate(words, out=sums[1:])
        found: Array = sums[start + length]
        found -= sums[start]
        found *= self._inverse_powers[start]
        for row in np.flatnonzero(length > MAX_POLYNOMIAL_WORDS).tolist():
            chain = block[start[row] : start[row] + length[row]].tobytes()
            digest = hashlib.blake2b(chain, digest_size=8, key=self._hash_key).digest()
            found[row] = np.uint64(int.from_bytes(digest, "little"))
        return found


def _make_powers(base: int) -> Array:
    """The powers of `base` modulo 2**64 for each word of a block."""
    powers = np.full(BLOCK_WORDS + MAX_RECORD_WORDS, base, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)

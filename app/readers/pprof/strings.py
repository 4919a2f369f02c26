"""The table of strings, without a Python object for each."""

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array


class PprofStrings:
    """The strings of a file, and some more. Each has a code: equal texts have equal codes.

    missing: number of look-ups of an index that is not in the file's table; first_missing: the first such index.
    """

    def __init__(self, data: Array, spans: Array) -> None:
        self._count = spans.shape[1]
        self.missing = self.first_missing = 0
        # The last one, an empty one, represents invalid indices.
        spans = np.append(spans, np.full((2, 1), spans[1, -1] if self._count else 0), axis=1)
        offsets = np.append(spans.T.ravel(), spans[1, -1]).astype(np.int32)
        pieces = pa.Array.from_buffers(
            pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)], null_count=0
        )
        raw = pieces.take(pa.array(np.arange(0, len(pieces), 2, dtype=np.int32)))
        try:
            texts = raw.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([text.decode("utf-8", "replace") for text in raw.to_pylist()], pa.string())
        encoded = texts.dictionary_encode()
        self._codes = encoded.indices.to_numpy()
        self.words: pa.StringArray = encoded.dictionary
        self.none = int(self._codes[-1])
        # Encoding a million names needs three times the memory of the result.
        del pieces, raw, texts
        pa.default_memory_pool().release_unused()

    def __getitem__(self, place: int) -> str:
        """The string at an index of the file's table."""
        return self.get_text(self.get_codes(np.array([place]))[0])

    def get_text(self, code: int) -> str:
        """The text of a code."""
        return str(self.words[int(code)])

    def get_codes(self, places: Array) -> Array:
        """The codes (int32) of the strings at these indices of the file's table; the empty one if it is shorter."""
        there = (places >= 0) & (places < self._count)
        # The first string is empty: index 0 means no string.
        beyond = np.flatnonzero(~there & (places != 0))
        if len(beyond):
            self.first_missing = self.first_missing or int(places[beyond[0]])
            self.missing += len(beyond)
        codes: Array = self._codes[np.where(there, places, self._count)]
        return codes

    def add_texts(self, words: list[str]) -> Array:
        """The codes of further texts, which are added."""
        if not words:
            return np.zeros(0, np.int32)
        encoded = pa.concat_arrays([self.words, pa.array(words, pa.string())]).dictionary_encode()
        self.words = encoded.dictionary
        indices: Array = encoded.indices.to_numpy()[len(encoded) - len(words) :]
        return indices

    def get_code(self, word: str) -> int:
        """The code of a text; -1 if the file does not contain it."""
        code: int = self.words.index(word).as_py()
        return code

    def build_column(self, codes: Array, null: bool = False) -> pa.Array:
        """The texts of codes as a column. null: the empty one is null."""
        return self.words.take(pa.array(codes, mask=codes == self.none if null else None))

"""Functions of Arrow under the names of pyarrow.compute, for whole columns.

Importing pyarrow.compute defines a Python function for each of Arrow's 300, which takes longer than reading a small
file. These call the functions by name, through the module of pyarrow that pyarrow.compute wraps. Columns are
Arrays or ChunkedArrays. Definitions: https://arrow.apache.org/docs/cpp/compute.html
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import _compute as arrow_compute


def _call(name: str, *values: Any, options: Any = None) -> Any:
    return arrow_compute.call_function(name, list(values), options)


def cast(values: pa.Array, to: pa.DataType) -> pa.Array:
    """The values as another type. Raises pyarrow.ArrowInvalid where that changes one."""
    return _call("cast", values, options=arrow_compute.CastOptions.safe(to))


def equal(one: pa.Array, other: Any) -> pa.Array:
    """Which rows are equal; `other` may be one value for all."""
    return _call("equal", one, other)


def and_(one: pa.Array, other: pa.Array) -> pa.Array:
    return _call("and", one, other)


def or_(one: pa.Array, other: pa.Array) -> pa.Array:
    return _call("or", one, other)


def is_valid(values: pa.Array) -> pa.Array:
    """Which rows are not null."""
    return _call("is_valid", values)


def is_in(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """Which values are among the wanted ones."""
    return _call("is_in", values, options=arrow_compute.SetLookupOptions(wanted))


def fill_null(values: pa.Array, instead: Any) -> pa.Array:
    """The values, with `instead` for null."""
    return _call("coalesce", values, pa.scalar(instead, values.type))


def coalesce(*choices: Any) -> pa.Array:
    """In each row the first that is not null."""
    return _call("coalesce", *choices)


def if_else(condition: pa.Array, chosen: Any, otherwise: Any) -> pa.Array:
    """In each row `chosen` where the condition holds, else `otherwise`."""
    return _call("if_else", condition, chosen, otherwise)


def replace_with_mask(values: pa.Array, mask: Any, replacements: pa.Array) -> pa.Array:
    """The values, of which those where the mask is true are replaced in turn."""
    return _call("replace_with_mask", values, mask, replacements)


def take(values: Any, rows: Any) -> Any:
    """These rows of a column or table."""
    return _call("take", values, rows, options=arrow_compute.TakeOptions(boundscheck=True))


def keep(values: Any, condition: Any) -> Any:
    """The rows of a column or table where a condition holds (Arrow's function `filter`)."""
    return _call("filter", values, condition, options=arrow_compute.FilterOptions("drop"))


def unique(values: pa.Array) -> pa.Array:
    """The distinct values in the order of their first rows."""
    return _call("unique", values)


def match_substring(texts: pa.Array, text: str) -> pa.Array:
    """Which texts contain this one."""
    return _call("match_substring", texts, options=arrow_compute.MatchSubstringOptions(text))


def match_substring_regex(texts: pa.Array, pattern: str) -> pa.Array:
    """Which texts contain a match of an expression of RE2."""
    return _call("match_substring_regex", texts, options=arrow_compute.MatchSubstringOptions(pattern))


def starts_with(texts: pa.Array, start: str) -> pa.Array:
    return _call("starts_with", texts, options=arrow_compute.MatchSubstringOptions(start))


def ends_with(texts: pa.Array, end: str) -> pa.Array:
    return _call("ends_with", texts, options=arrow_compute.MatchSubstringOptions(end))


def binary_join(lists: pa.Array, separator: str) -> pa.Array:
    """The texts of each list joined."""
    return _call("binary_join", lists, separator)


def concat_texts(pieces: Sequence[pa.Array | str]) -> pa.Array:
    """The pieces of each row concatenated, null if one is null. A piece can be the same in all rows."""
    return _call("binary_join_element_wise", *pieces, "", options=arrow_compute.JoinOptions("emit_null"))


def any_(values: pa.Array) -> pa.Scalar:
    """Whether one value is true; null if there is none that is not null."""
    return _call("any", values)


def max_(values: pa.Array) -> pa.Scalar:
    """The largest value; null if there is none."""
    return _call("max", values)


def dictionary_encode(values: pa.Array) -> pa.Array:
    """The values as indices of the distinct ones, which have the order of their first rows; null stays null."""
    return _call("dictionary_encode", values, options=arrow_compute.DictionaryEncodeOptions("mask"))


def drop_null(values: pa.Array) -> pa.Array:
    """The values that are not null."""
    return _call("drop_null", values)

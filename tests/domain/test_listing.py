"""Names and numbers in a sentence."""

from perfloom.domain.list_text import abbreviate_names, format_ranges, to_ranges


def test_names_are_abbreviated() -> None:
    assert [abbreviate_names(["a", "b", "c"][:n], 2) for n in range(4)] == ["", "a", "a, b", "a, b and 1 more"]


def test_numbers_become_ranges() -> None:
    assert to_ranges([]) == []
    assert to_ranges([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)]
    assert format_ranges([(0, 2), (5, 5), (7, 8)]) == "0–2, 5, 7–8"
    assert format_ranges([(0, 2), (5, 5)], "-", ",") == "0-2,5"

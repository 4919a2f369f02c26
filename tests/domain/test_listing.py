"""Names and numbers in a sentence."""

from perfloom.domain.listing import ranges_of, ranges_text, some


def test_some_names() -> None:
    assert [some(["a", "b", "c"][:n], 2) for n in range(4)] == ["", "a", "a, b", "a, b and 1 more"]


def test_ranges() -> None:
    assert ranges_of([]) == []
    assert ranges_of([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)]
    assert ranges_text([(0, 2), (5, 5), (7, 8)]) == "0–2, 5, 7–8"
    assert ranges_text([(0, 2), (5, 5)], "-", ",") == "0-2,5"

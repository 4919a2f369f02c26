"""Instructions and lines, compared with those of binutils."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.machine_code import (
    COMPILERS,
    Call,
    address_array,
    build_code,
    build_profile,
    compile_program,
    list_calls,
    list_chain,
    list_functions,
)

pytestmark = pytest.mark.heavy
MOVED = 0x55D2_1000_0000


@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
@pytest.mark.parametrize("source", COMPILERS)
def test_instructions_and_lines_are_those_of_binutils(source: str, optimized: bool, tmp_path: Path) -> None:
    binary = compile_program(source, tmp_path, optimized=optimized)
    functions = {
        name: found
        for name, found in list_functions(binary).items()
        if any(word in name for word in ("walk", "descend", "main", "Solver", "Walk", "sort", "step")) and found
    }
    assert len(functions) > 1
    moved = MOVED if optimized else 0
    code = build_code(build_profile(binary, {name: found[0] for name, found in functions.items()}, moved=moved), binary)
    (known,) = code.objects.to_pylist()
    assert (known["status"], known["machine"], known["detail"]) == ("complete", "x64", None)
    symbols = code.symbols.to_pylist()
    assert {symbol["start"] for symbol in symbols} == {found[0] for found in functions.values()}
    addresses, symbol = address_array(code), code.instructions.column("symbol").to_pylist()
    for number, row in enumerate(symbols):
        own = [int(a) for a, s in zip(addresses, symbol, strict=True) if s == number]
        wanted = next(found for found in functions.values() if found[0] == row["start"])
        # objdump also lists the padding after a function.
        assert own == [address for address in wanted if address < row["end"]]
    places = code.instructions.column("place").to_pylist()
    calls = list_calls(binary, [int(address) for address in addresses])
    wrong = []
    lines = len((tmp_path / source).read_text().splitlines())

    def place_of(call: Call) -> tuple[str, int]:
        """addr2line may name a wrong file where code was partly inlined: one with fewer lines."""
        name = Path(call.file).name
        return ("" if name == source and call.line > lines else name, call.line)

    for address, place in zip(addresses.tolist(), places, strict=True):
        chain = list_chain(code, place)
        expected = calls[address]
        pairs = zip(map(place_of, chain), map(place_of, expected), strict=True)
        if any(own[1] != other[1] or (other[0] and own[0] != other[0]) for own, other in pairs):
            wrong.append((hex(address), chain, expected))
    assert not wrong, wrong[:5]
    if optimized:
        assert any(len(chain) > 2 for chain in calls.values())

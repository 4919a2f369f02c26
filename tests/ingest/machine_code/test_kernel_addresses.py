"""Addresses of the kernel are above 2^63, where floating-point numbers are too coarse."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.machine_code import FOLDER, address_array, build_code, build_profile, list_calls, list_chain
from tests.support.parts import require

TEXT = 0xFFFF_FFFF_8100_0000


def test_lines_of_kernel_addresses_are_those_of_binutils(tmp_path: Path) -> None:
    source, program = tmp_path / "sum.c", tmp_path / "vmlinux"
    source.write_bytes((FOLDER / "sum.c").read_bytes())
    options = ["-O2", "-g", "-fno-pic", "-mcmodel=kernel", "-static", "-nostdlib", f"-Wl,-Ttext={TEXT:#x}"]
    command = [str(require("gcc")), *options, "-Wl,--unresolved-symbols=ignore-all", "-Wl,-e,walk", str(source)]
    subprocess.run([*command, "-o", str(program)], check=True, capture_output=True)
    text = subprocess.run(["nm", str(program)], check=True, capture_output=True, text=True).stdout
    starts = {line.split()[-1]: int(line.split()[0], 16) for line in text.splitlines() if " T " in line}
    code = build_code(build_profile(program, {name: starts[name] for name in ("walk", "descend")}), program)
    places, addresses = code.instructions.column("place").to_pylist(), address_array(code).tolist()
    chains = [[(one.function, one.line) for one in list_chain(code, place)] for place in places]
    expected = list_calls(program, addresses)
    assert min(addresses) >= TEXT
    assert chains == [[(one.function, one.line) for one in expected[address]] for address in addresses]
    assert ("step", 14) in [chain[0] for chain in chains]

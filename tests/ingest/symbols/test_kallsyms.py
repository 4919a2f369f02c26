"""Symbols of the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.ingest.symbols.kallsyms import KernelSymbols, parse_kallsyms
from perfloom.ingest.symbols.perf_names import PerfNames

TEXT = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T first_alias
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_one\tx
ffffffff81000200 W weak_symbol
ffffffff81000300 V not_a_function
ffffffff81000300 d some_data
ffffffff81000400 t $x
ffffffff81000500 t last_in_kernel
ffffffffc0000000 t init_module\t[snd_pcm]
ffffffffc0000100 t read_pcm\t[snd_pcm]
ffffffffc0002000 t other\t[nf_tables]
ffffffffc0003000 t bpf_prog_6deef7357e7b4530\t[bpf]
short
ffffffff8100zzzz T rubbish
ffffffff81000600 Tmissing_space
"""


def find(kernel: KernelSymbols, *addresses: int) -> list[str | None]:
    rows = kernel.table.find(np.array(addresses, np.uint64), PerfNames.keep).tolist()
    return [kernel.table.name_of(row).decode() if row >= 0 else None for row in rows]


def test_symbols_reach_to_the_next_one_and_the_last_name_of_an_address_counts() -> None:
    kernel = parse_kallsyms(TEXT)
    assert kernel.text_start == 0xFFFFFFFF81000000
    base = 0xFFFFFFFF81000000
    found = find(kernel, base - 1, base, base + 0xFF, base + 0x100, base + 0x2FF, base + 0x300, base + 0x4FF)
    assert found == [None, "_text", "_text", "do_one", "weak_symbol", "some_data", "some_data"]
    # The last symbol of the kernel ends with the page after it, and not at the first module.
    assert find(kernel, base + 0x500, base + 0x1FFF, base + 0x2000) == ["last_in_kernel", "last_in_kernel", None]
    assert find(kernel, 0xFFFFFFFFC0000010) == [None]


def test_symbols_of_a_module() -> None:
    module = parse_kallsyms(TEXT).select_module(b"[snd_pcm]")
    rows = module.find(
        np.array([0xFFFFFFFFC0000000, 0xFFFFFFFFC0001FFF, 0xFFFFFFFFC0002000], np.uint64), PerfNames.keep
    )
    assert [module.name_of(row) if row >= 0 else None for row in rows.tolist()] == [b"init_module", b"read_pcm", None]
    assert not len(parse_kallsyms(TEXT).select_module(b"[absent]"))


def test_hidden_addresses_and_rubbish_give_no_start() -> None:
    hidden = parse_kallsyms(b"".join(b"0" * 16 + line[16:] + b"\n" for line in TEXT.splitlines()))
    assert hidden.text_start is None
    for text in (b"", b"\n", b"x", b"\xff" * 100, b"0123456789abcdef", b" " * 50, b"c0008000 T _text\nc0009000 t f"):
        parse_kallsyms(text)
    short = parse_kallsyms(b"c0008000 T _text\nc0009000 t f")
    assert short.text_start == 0xC0008000
    assert find(short, 0xC0008FFF, 0xC0009001) == ["_text", "f"]


def test_symbols_of_this_kernel_are_those_of_its_text() -> None:
    with open("/proc/kallsyms", "rb") as file:
        text = file.read()
    kernel = parse_kallsyms(text)
    if kernel.text_start is None:
        pytest.skip("this user may not see the addresses of the kernel")
    known: dict[int, str] = {}
    for line in text.decode().splitlines():
        address, kind, name = line.split(maxsplit=2)
        if kind in "tTwWdDbB" and "[" not in name and not name.startswith("$"):
            known[int(address, 16)] = name.partition("\t")[0]
    sample = sorted(known)[::500]
    assert find(kernel, *sample) == [known[address] for address in sample]

"""Names as perf prints them, compared with c++filt, which has the same demangler (libiberty)."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from perfloom.ingest.symbols.perf_names import MAX_MANGLED, PerfNames

CPP = [
    "_ZNK2ns3BoxIdLi16EE3sumESt8functionIFddRKdEE",
    "_ZNK2ns3BoxIdLi16EEcvbEv",
    "_ZN2ns8variadicIJidlRiEEEDTfrplfp_EDpOT_",
    "_ZN2ns12_GLOBAL__N_16hiddenERSt3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEiSt4lessIS7_ESaISt4pairIKS7_iEEE",
    "_ZSt16__introsort_loopIN9__gnu_cxx17__normal_iteratorIPiSt6vectorIiSaIiEEEElNS0_5__ops15_Iter_comp_iterIZ4mainEUliiE0_EEEvT_SB_T0_T1_",
    "_ZNSt17_Function_handlerIFddRKdEZ4mainEUldS1_E_E9_M_invokeERKSt9_Any_dataOdS1_",
    "_ZZN1A3fooEivE1x",
    "_ZTV1A",
    "_ZThn16_N1A3fooEi",
    "_ZGVZ1fvE1x",
    "_Z3foov.cold",
    "_Z3barPKc.constprop.0.isra.1",
    "_ZL6hiddenv",
    "_ZN3FooD0Ev",
    "_ZNKSt5ctypeIcE8do_widenEc",
    "_ZN1AltERKS_",
    "_ZdlPvm",
    # A local variable of a const method, results that are pointers to functions, and expressions with < and >.
    "_ZZNK6icu_7814ResourceBundle9getLocaleEvE11gLocaleLock",
    "_Z1gIiEPFviET_",
    "_ZN1A1hIiEEPA3_iv",
    "_Z1hIXgtLi3ELi2EEEvv",
    "_Z1kIiEDTltcvT_Li1EcvS0_Li2EES0_",
    "_ZNKR1A1fEv",
    "_ZNVK1A1fEPKc",
    "_Z1fPFvPFviEE",
    "_ZN12_GLOBAL__N_11fILi1EEEmv",
    "_GLOBAL__I_counter",
    "_GLOBAL__sub_I_main",
    "__Z3foov",
    "_ZN4_Bad",
    "_Z",
]
"""Demangled by libiberty without parameters."""


@pytest.mark.parametrize("name", CPP)
def test_names_of_cpp_are_those_of_libiberty(name: str) -> None:
    tool = shutil.which("c++filt")
    if tool is None:
        pytest.skip("c++filt is not installed")
    printed = subprocess.run([tool, "-p"], input=name, capture_output=True, text=True, check=True).stdout.strip()
    assert PerfNames().format(name.encode()) == printed


@pytest.mark.parametrize(
    ("raw", "printed"),
    [
        ("_ZN4core3fmt9Formatter3pad17h9b2b3a0e5b4d1b31E", "core::fmt::Formatter::pad"),
        ("_ZN4core3fmt9Formatter3pad17h9b2b3a0e5b4d1b31E.llvm.123", "core::fmt::Formatter::pad"),
        # 16 equal digits are no hash.
        ("_ZN4core3pad17h1111111111111111E", "core::pad::h1111111111111111"),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("camlStdlib__List__map_12", "Stdlib.List.map_12"),
        # c++filt writes out more abbreviations than perf.
        ("_ZNSo5flushEv", "std::ostream::flush"),
        ("_ZNSoC1Ev", "std::basic_ostream<char, std::char_traits<char> >::basic_ostream"),
        (
            "_ZThn16_NSdD0Ev",
            "non-virtual thunk to std::basic_iostream<char, std::char_traits<char> >::~basic_iostream()",
        ),
        # Constraints of C++20, which old versions of libiberty do not know.
        (
            "_ZN2v88internal14OrderedHashSet3AddINS0_6HandleEQsr3stdE16is_convertible_vIT_IS1_ENS0_12DirectHandleIS1_EEEEE"
            "NS5_9MaybeTypeEPNS0_7IsolateES5_NS6_INS0_6ObjectEEE",
            "v8::internal::OrderedHashSet::Add<v8::internal::Handle>",
        ),
        ("_Znwm@plt", "operator new@plt"),
        ("puts@plt", "puts@plt"),
        ("_D3foo3barFZv", "_D3foo3barFZv"),
    ],
)
def test_names_of_other_languages(raw: str, printed: str) -> None:
    assert PerfNames().format(raw.encode()) == printed


def test_hostile_names_are_kept() -> None:
    names = PerfNames()
    assert names.format(b"\xff\xfe\n") == "\\xff\\xfe\n"
    assert names.format(b"_Z" + b"1a" * MAX_MANGLED).startswith("_Z1a")
    nested = b"_Z1f" + b"P" * 1500 + b"i"
    assert names.format(nested) in ("f", nested.decode())
    deep = b"_Z" + b"N1aI" * 400 + b"i" + b"E" * 400
    assert names.format(deep) == deep.decode()
    # A name that reverses the text of a line, by U+202E.
    assert names.format("_Z6\u202eabc".encode() + b"v") == "_Z6\u202eabcv"

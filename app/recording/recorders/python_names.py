"""The library of stubs with which `python_inject` names the functions of Python programs, and its files."""

import base64
import zlib
from functools import cache
from pathlib import Path

from ...domain.rank_state import INJECTED_FILE
from ...workload.stub_library import FRAME_RULES, Stub, lay_out, shared_library
from . import python_inject

STUBS = 1024
"""Of a library; a program with more functions loads several."""
NAME_BYTES = 240

# endbr64; push %rbp; mov %rsp,%rbp; call *%rcx; pop %rbp; ret: calls the evaluation loop with the same arguments.
_STUB = bytes.fromhex("f30f1efa 55 4889e5 ffd1 5d c3")
# A frame evaluation function (thread state in %rdi, frame in %rsi, flag in %edx). The table, whose address is in the
# movabs: offset of the code object in a frame; index of its extra; _PyCode_GetExtra; the evaluation loop; whether a
# stub is being made; the function that makes it, whose result may be lost; the place where it writes the stub. Without
# a stub, the loop is called directly: while one is being made, and while an exception is thrown into a generator
# (%edx), when no Python code must run.
_EVALUATOR = bytes.fromhex(
    "f30f1efa 55 4889e5 53 4154 4155 4883ec18"  # endbr64; push %rbp, %rbx, %r12, %r13; sub $24,%rsp
    "4889fb 4989f4 4189d5"  # mov %rdi,%rbx; mov %rsi,%r12; mov %edx,%r13d
    "48b88877665544332211 4889442410 48c7042400000000"  # movabs $TABLE,%rax; mov %rax,16(%rsp); movq $0,(%rsp)
    "488b08 488b3c0e 48897c2408"  # mov (%rax),%rcx; mov (%rsi,%rcx),%rdi; mov %rdi,8(%rsp)
    "488b7008 4889e2 ff5010"  # mov 8(%rax),%rsi; mov %rsp,%rdx; call *16(%rax)
    "488b0424 4885c0 7547"  # mov (%rsp),%rax; test %rax,%rax; jne run
    "488b4c2410 488b4118 4585ed 7539"  # mov 16(%rsp),%rcx; mov 24(%rcx),%rax; test %r13d,%r13d; jne run
    "4883792000 7532"  # cmpq $0,32(%rcx); jne run
    "48c7412001000000 48c7413000000000"  # movq $1,32(%rcx); movq $0,48(%rcx)
    "488b7c2408 ff5128"  # mov 8(%rsp),%rdi; call *40(%rcx)
    "488b4c2410 48c7412000000000"  # mov 16(%rsp),%rcx; movq $0,32(%rcx)
    "488b4130 4885c0 7504 488b4118"  # mov 48(%rcx),%rax; test %rax,%rax; jne run; mov 24(%rcx),%rax
    "488b4c2410 488b4918 4889df 4c89e6 4489ea"  # run: mov 24(table),%rcx; the arguments again
    "ffd0 488d65e8 415d 415c 5b 5d c3"  # call *%rax; lea -24(%rbp),%rsp; pop %r13, %r12, %rbx, %rbp; ret
)
# As FRAME_RULES; rbx, r12 and r13 are saved below rbp, and restored before ret.
_EVALUATOR_RULES = bytes.fromhex("45 0e10 8602 43 0d06 49 8303 8c04 8d05 02a4 0c0708 c6 c3 cc cd")
_EVALUATOR_NAME = "py_trampoline_evaluator"
"""As the function of CPython with the same purpose."""


def python_files() -> dict[str, str]:
    """The texts for the job's directory, by name."""
    return {INJECTED_FILE: _source(), python_inject.LIBRARY_TEXT: _library_text()}


@cache
def _source() -> str:
    return Path(__file__).with_name("python_inject.py").read_text(encoding="utf-8")


@cache
def _library_text() -> str:
    """A library with empty names, which are written while the program runs."""
    stub = Stub("\0" * (NAME_BYTES - 1), _STUB, FRAME_RULES)
    stubs = [Stub(_EVALUATOR_NAME, _EVALUATOR, _EVALUATOR_RULES), *(stub for _ in range(STUBS))]
    layout = lay_out(stubs)
    numbers = layout.starts[0], layout.starts[1], STUBS, layout.names[1], NAME_BYTES
    packed = base64.b85encode(zlib.compress(shared_library(stubs), 9)).decode("ascii")
    return f"{' '.join(map(str, numbers))}\n{packed}\n"

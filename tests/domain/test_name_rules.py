"""Names of two builds of a program: what a rule leaves out, and what it must not touch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.symbols.name_rules import COMPILER_RULES, NAME_RULES, rename_function, rename_module


@pytest.mark.parametrize(
    ("rule", "name", "renamed"),
    [
        ("clones", "work.isra.0", "work"),
        ("clones", "work.constprop.0.cold", "work"),
        ("clones", "work.llvm.1234567890", "work"),
        ("clones", "main._omp_fn.0", "main._omp_fn.0"),
        ("clones", "a::work(int) [clone .part.0] [clone .cold]", "a::work(int)"),
        ("clones", "file.cold_start", "file.cold_start"),
        ("clones", ".cold", ".cold"),
        ("clones", "java.util.part", "java.util.part"),
        ("lambdas", "main::{lambda(int, char)#12}::operator()", "main::{lambda(int, char)}::operator()"),
        ("lambdas", "run::{closure#3}", "run::{closure}"),
        ("lambdas", "main::$_0::operator()() const", "main::$_::operator()() const"),
        ("lambdas", "main::'lambda1'(int)::operator()", "main::'lambda'(int)::operator()"),
        ("lambdas", "main.run.func1.2", "main.run.func"),
        ("lambdas", "main.(*Server).Serve.func2", "main.(*Server).Serve.func"),
        ("lambdas", "Bench.func1", "Bench.func1"),
        ("lambdas", "main.func12x", "main.func12x"),
        ("hashes", "core::fmt::write::h0123456789abcdef", "core::fmt::write"),
        ("hashes", "core[0123456789abcdef]::fmt::write", "core::fmt::write"),
        ("hashes", "a::hello", "a::hello"),
        ("addresses", "stub_0x7f12ab34cd56", "stub_0x7f12ab34cd56"),
        ("addresses", "[stub] 0x7f12ab34cd56", "[stub] 0x…"),
        ("addresses", "f0x1", "f0x1"),
        ("generated", "Main$$Lambda$14/0x00000008000b1c40::run", "Main$$Lambda::run"),
        ("generated", "com.sun.proxy.$Proxy12.get", "com.sun.proxy.$Proxy.get"),
        (
            "templates",
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
            "std::vector::push_back(int const&)",
        ),
        ("templates", "operator<<(std::ostream&, Point<int> const&)", "operator<<(std::ostream&, Point const&)"),
        ("templates", "a::operator<(int)", "a::operator<(int)"),
        ("templates", "<module>", "<module>"),
        ("templates", "<core::Iter<T> as Iterator>::next", "<core::Iter as Iterator>::next"),
        ("templates", "a<b", "a<b"),
        ("templates", "Ljava/lang/Object;::<init>", "Ljava/lang/Object;::<init>"),
        ("templates", "py::<module>:/app.py", "py::<module>:/app.py"),
        ("templates", "Vec::<u8>::push", "Vec::push"),
        ("templates", "foo<(1>2)>(int)", "foo(int)"),
        ("templates", "call<void (std::vector<int>)>::run", "call::run"),
        ("arguments", "work::Solver::run(int) const", "work::Solver::run"),
        ("arguments", "work::run(std::function<void (int)>, char)", "work::run"),
        ("arguments", "a::operator()(int)", "a::operator()"),
        ("arguments", "a::operator()", "a::operator()"),
        ("arguments", "f(int) [clone .cold]", "f [clone .cold]"),
        ("arguments", "f(int)::{lambda()#1}::operator()() const", "f(int)::{lambda()#1}::operator()"),
        ("arguments", "(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("arguments", "(deleted)", "(deleted)"),
        ("arguments", "plain", "plain"),
        ("arguments", "main.(*Server).Serve", "main.(*Server).Serve"),
        ("arguments", "-[NSString(Cat) foo]", "-[NSString(Cat) foo]"),
        ("arguments", "f(int) const &", "f"),
    ],
)
def test_names(rule: str, name: str, renamed: str) -> None:
    assert rename_function(name, (rule,)) == renamed


@pytest.mark.parametrize(
    ("rule", "module", "renamed"),
    [
        ("versions", "/usr/lib/libstdc++.so.6.0.33", "/usr/lib/libstdc++.so"),
        ("versions", "/lib/libc-2.31.so", "/lib/libc.so"),
        ("versions", "/opt/v1.2/solver", "/opt/v1.2/solver"),
        ("directories", "/opt/v1/bin/solver", "solver"),
        ("directories", "[kernel.kallsyms]", "[kernel.kallsyms]"),
        ("directories", "/", "/"),
        ("generated", "/tmp/perf-4711.map", "/tmp/perf.map"),
        ("generated", "/root/.debug/jit/jitted-12-3.so", "/root/.debug/jit/jitted.so"),
        ("modules", "/any/thing", ""),
    ],
)
def test_modules(rule: str, module: str, renamed: str) -> None:
    assert rename_module(module, (rule,)) == renamed


@given(st.text("ab<>(){}[]:.#$_0'~ -=", max_size=60), st.sets(st.sampled_from(sorted(NAME_RULES))))
def test_a_name_remains_and_rules_are_stable(name: str, rules: set[str]) -> None:
    renamed = rename_function(name, rules)
    assert bool(renamed) == bool(name)
    assert len(renamed) <= len(name) + 3


def test_long_names_take_no_long_time() -> None:
    hostile = (".cold" * 3_999 + "x", ".isra.0" * 2_850 + "x", "Generated" * 2_222, " [clone " * 2_500, ".1" * 9_000)
    for name in (
        *hostile,
        "<" * 20_000,
        "f(" * 10_000,
        "a.cold" * 3_000,
        "{lambda(" * 2_500,
        "$_1" * 6_000,
        "x" * 1_000_000,
    ):
        assert rename_function(name, tuple(NAME_RULES))
    assert set(COMPILER_RULES) < set(NAME_RULES)

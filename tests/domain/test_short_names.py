"""Short names of functions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.symbols.short_names import MAX_CHARACTERS, shorten_distinct, shorten_symbol

SHORT = {
    # C++, as c++filt writes it.
    "std::vector<int, std::allocator<int> >::push_back(int const&)": "vector<…>::push_back",
    "void std::sort<int*, bool (*)(int, int)>(int*, int*, bool (*)(int, int))": "std::sort<…>",
    "std::enable_if<true, void>::type ns::f<int>(int)": "ns::f<…>",
    "bool foo<(Kind)3>(int)": "foo<…>",
    "ns::A::~A()": "A::~A",
    "main::{lambda(int)#1}::operator()(int) const": "main::{lambda(int)#1}::operator()",
    "ns::foo(int)::{lambda(auto:1)#1}::operator()<int>(int) const": "foo::{lambda(auto:1)#1}::operator()<…>",
    "a::(anonymous namespace)::B::helper(char const*) [clone .cold]": "B::helper [clone .cold]",
    "(anonymous namespace)::helper(char const*)": "helper",
    "std::ostream& operator<< <char>(std::ostream&, char)": "operator<<<…>",
    "operator<<(std::ostream&, Foo const&)": "operator<<",
    "ns::Foo::operator->() const": "Foo::operator->",
    "ns::Foo::operator>=(ns::Foo const&) const": "Foo::operator>=",
    "ns::Foo::operator()(int, int)": "Foo::operator()",
    "ns::Foo::operator std::string[abi:cxx11]() const": "Foo::operator std::string",
    "operator new(unsigned long)": "operator new",
    "std::function<void (int)>::operator()(int) const": "function<…>::operator()",
    "non-virtual thunk to ns::A::run()": "non-virtual thunk to A::run",
    "a::b::work.part.0": "b::work.part.0",
    # Rust
    "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop": "<Vec<…> as Drop>::drop",
    "a::b::<impl core::fmt::Debug for a::b::C>::fmt": "<impl Debug for C>::fmt",
    "core::ptr::drop_in_place<alloc::string::String>": "ptr::drop_in_place<…>",
    "alloc::vec::Vec<T,A>::push": "Vec<…>::push",
    "my_crate::run::{{closure}}::{{closure}}": "run::{{closure}}::{{closure}}",
    # Java
    "java.util.HashMap.get": "HashMap.get",
    "java.util.HashMap.get(java.lang.Object)": "HashMap.get",
    "java.util.HashMap.get(Ljava/lang/Object;)Ljava/lang/Object;": "HashMap.get",
    "java.lang.String.<init>(byte[], int, long)": "String.<init>",
    "java.util.HashMap.get->java.util.HashMap.hash(int)": "HashMap.get->HashMap.hash",
    "void java.util.HashMap::resize(int)": "HashMap::resize",
    "com.foo.Outer$Inner.<init>": "Outer$Inner.<init>",
}
UNCHANGED = (
    *("aten::add", "sched:sched_switch", "<module>", "f.<locals>.g", "read (file.py:12)", "finish_task_switch.isra.0"),
    *("runtime.(*mcache).refill", "runtime.mallocgc", "[unknown]", "-[NSObject init]", "python train.py --x", ""),
    *("/usr/bin/a::b", "torch/nn/module.py(1532): _call", "nn.Module: Linear_0", "ProfilerStep#3", "cudaLaunchKernel"),
    *(
        "int (*get_fn(int))(char)",
        "decltype(auto) std::__invoke<int>(int&&)",
        "numpy.core.Foo",
        "f(",
        "::",
        "a::",
        "<>",
        "a)b<c",
    ),
)


@pytest.mark.parametrize(("name", "short"), SHORT.items())
def test_symbol_short(name: str, short: str) -> None:
    assert shorten_symbol(name) == short


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_name_unchanged(name: str) -> None:
    assert shorten_symbol(name) == name


@given(
    st.lists(st.sampled_from([*"<>()[]{}. ~&o", "::", "->", "operator", "impl ", " as ", "a", "é", "\0"])).map("".join)
)
def test_any_name_short_and_stable(name: str) -> None:
    short = shorten_symbol(name)
    assert len(short) <= len(name) + 3 * name.count("<")
    assert bool(short) == bool(name)


@pytest.mark.parametrize(
    "name",
    [
        *("<" * 4000, "<" * 1999 + "a" + ">" * 1999, ".cold" * 790 + "!", "f()" + ".a" * 1900 + "!", "a(" * 1999),
        *("<a as " * 500 + "b" + ">" * 500, "a.b/" * 990 + "(", "a::operator " * 300, "{" * 1999 + "}" * 1999),
    ],
)
def test_nested_name_in_linear_time(name: str) -> None:
    assert len(name) <= MAX_CHARACTERS
    begun = time.process_time()
    shorten_symbol(name)
    assert time.process_time() - begun < 1


def test_names_that_would_look_the_same_full() -> None:
    names = ["a::b::C<int>::f()", "a::b::C<long>::f()", "a::b::D::f()", "main"]
    assert [*map(shorten_distinct(names), names)] == ["a::b::C<int>::f()", "a::b::C<long>::f()", "D::f", "main"]
    assert shorten_distinct(["D::f", "a::D::f()"])("a::D::f()") == "a::D::f()"

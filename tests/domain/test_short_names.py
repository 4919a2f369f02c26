"""Short names of functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.symbols.short_names import MAX_CHARACTERS, shorten_distinct, shorten_symbol
from tests.support.cpu import limit_cpu_s

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
    "std::ostream& operator<< <char>(std::ostream&, char)": "operator<< <…>",
    "operator<<(std::ostream&, Foo const&)": "operator<<",
    "ns::Foo::operator->() const": "Foo::operator->",
    "ns::Foo::operator>=(ns::Foo const&) const": "Foo::operator>=",
    "ns::Foo::operator()(int, int)": "Foo::operator()",
    "ns::Foo::operator std::string[abi:cxx11]() const": "Foo::operator string",
    "operator new(unsigned long)": "operator new",
    "std::function<void (int)>::operator()(int) const": "function<…>::operator()",
    "non-virtual thunk to ns::A::run()": "non-virtual thunk to A::run",
    "a::b::work.part.0": "b::work.part.0",
    "std::vector<int, std::allocator<int>>::push_back(int const&)": "vector<…>::push_back",
    "main(int, char**)": "main",
    "main::{lambda(std::vector<int> const&, int)#2}::operator()(int) const": "main::{lambda(…)#2}::operator()",
    "main::'lambda'(int)::operator()(int) const": "main::'lambda'(int)::operator()",
    "auto std::foo<int>(int)::{lambda(auto:1&&)#1}::operator()<std::vector<int> >(std::vector<int>&&) const": "foo<…>::{lambda(auto:1&&)#1}::operator()<…>",
    "(anonymous namespace)::foo()": "foo",
    "ns::(anonymous namespace)::Foo::bar(int)": "Foo::bar",
    "a::Foo<int>::~Foo()": "Foo<…>::~Foo",
    "a::Foo::operator int() const": "Foo::operator int",
    "Foo::operator std::vector<int, std::allocator<int> >() const": "Foo::operator vector<…>",
    "Foo::operator A::B const&() const": "Foo::operator B const&",
    "bool operator< <int>(A<int> const&, A<int> const&)": "operator< <…>",
    "std::basic_ostream<char>& std::operator<< <std::char_traits<char> >(std::basic_ostream<char>&, char const*)": "std::operator<< <…>",
    "a::Foo::operator<(a::Foo const&) const": "Foo::operator<",
    "a::Foo::operator->()": "Foo::operator->",
    "a::Foo::operator->*(int)": "Foo::operator->*",
    "a::Foo::operator()<int>(int) const": "Foo::operator()<…>",
    "a::Foo::operator[](unsigned long)": "Foo::operator[]",
    "std::chrono::operator<=>(a, b)": "chrono::operator<=>",
    "operator delete[](void*)": "operator delete[]",
    'operator"" _w(unsigned long)': 'operator"" _w',
    "foo[abi:cxx11]()": "foo",
    "ns::foo(int) [clone .isra.0] [clone .cold]": "ns::foo [clone .isra.0] [clone .cold]",
    "foo()@plt": "foo@plt",
    "non-virtual thunk to a::b::Foo::bar()": "non-virtual thunk to Foo::bar",
    "unsigned long std::count<int*, int>(int*, int*, int const&)": "std::count<…>",
    "decltype(auto) std::visit<foo>(int)": "std::visit<…>",
    "decltype (foo()) bar<int>(int)": "bar<…>",
    "void foo<(1 > 0), (2 < 3)>(int)": "foo<…>",
    "oopDesc* PSPromotionManager::copy_to_survivor_space<false>": "PSPromotionManager::copy_to_survivor_space<…>",
    "boost::asio::detail::foo(int)::Bar::baz(char)": "Bar::baz",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int, float)": "native::vectorized_elementwise_kernel<…>",
    # Rust
    "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop": "<Vec<…> as Drop>::drop",
    "a::b::<impl core::fmt::Debug for a::b::C>::fmt": "<impl Debug for C>::fmt",
    "core::ptr::drop_in_place<alloc::string::String>": "ptr::drop_in_place<…>",
    "alloc::vec::Vec<T,A>::push": "Vec<…>::push",
    "my_crate::run::{{closure}}::{{closure}}": "run::{{closure}}::{{closure}}",
    "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>": "ptr::drop_in_place<…>",
    "core::ptr::drop_in_place::<alloc::string::String>": "ptr::drop_in_place::<…>",
    "core::ops::function::FnOnce::call_once{{vtable.shim}}": "FnOnce::call_once{{vtable.shim}}",
    "a::b::c::{{closure}}": "c::{{closure}}",
    "<alloc::vec::Vec<u8>>::push": "Vec<…>::push",
    "<&mut foo::Bar as core::iter::Iterator>::next": "<&mut Bar as Iterator>::next",
    "<foo::Bar<T> as core::fmt::Debug>::fmt::{closure#0}": "<Bar<…> as Debug>::fmt::{closure#0}",
    "<fn(&str) -> bool as core::ops::FnOnce<(&str,)>>::call_once": "<fn(&str) -> bool as FnOnce<…>>::call_once",
    "core::slice::<impl [T]>::iter": "<impl [T]>::iter",
    "core::fmt::num::<impl core::fmt::Debug for usize>::fmt": "<impl Debug for usize>::fmt",
    "main::main::{closure#0}": "main::{closure#0}",
    "alloc::vec::Vec<T,A>::retain::{{closure}}": "Vec<…>::retain::{{closure}}",
    "core::fmt::Write::write_fmt [clone .llvm.1668204612679990576]": "Write::write_fmt",
    "std::sys::args::unix::imp::ARGV [clone .0]": "imp::ARGV [clone .0]",
    "<<alloc::boxed::Box<dyn core::error::Error> as core::convert::From<&str>>::from::StringError as core::fmt::Debug>::fmt": "<StringError as Debug>::fmt",
    "core::ptr::drop_in_place::<<a::B<_, _> as core::ops::drop::Drop>::drop::Guard<u64>>": "ptr::drop_in_place::<…>",
    "<std::sync::once::Once>::call_once_force::<<a::OnceLock<b::C>>::get::{closure#0}>::{closure#0}": "Once::call_once_force::<…>::{closure#0}",
    # Java
    "java.util.HashMap.get": "HashMap.get",
    "java.util.HashMap.get(java.lang.Object)": "HashMap.get",
    "java.lang.String.<init>(byte[], int, long)": "String.<init>",
    "java.util.HashMap.get->java.util.HashMap.hash(int)": "HashMap.get->HashMap.hash",
    "void java.util.HashMap::resize(int)": "HashMap::resize",
    "void com.foo.Bar.baz(int, java.lang.String[])": "Bar.baz",
    "org.vertx.VertxHandler.channelRead(io.netty.channel.ChannelHandlerContext, …)": "VertxHandler.channelRead",
    "java.lang.Object.<init>": "Object.<init>",
    "com.foo.Bar$$Lambda$14.run": "Bar$$Lambda$14.run",
    "java.util.HashMap$Node.getKey": "HashMap$Node.getKey",
    "com.foo.Outer$Inner.<init>": "Outer$Inner.<init>",
}
UNCHANGED = (
    "[libc.so.6]",
    "main",
    "__x64_sys_read",
    "foo.isra.0",
    "/usr/lib/libc.so.6",
    "a.py:12",
    "HashMap.get",
    "void (*foo(int))(char)",
    "std::",
    "::foo",
    "f(x",
    "f()g",
    "a < b",
    "python train.py --x 3",
    "bash -c foo(1)",
    'sh -c "f(x)"',
    "make all(1)",
    "git log --format=<x>",
    "cat a<b>",
    "echo a::b",
    "<lambda>",
    "<frozen importlib._bootstrap>",
    "Foo.<locals>.bar",
    "train.py(12): main",
    "train.py(12)",
    "run (app.py:12)",
    "py::foo:/path/file.py",
    "<built-in method add of type object at 0x7f>",
    "Object.<anonymous>",
    "(garbage collector)",
    "github.com/foo/bar.(*T).Method",
    "main.Map[go.shape.int]",
    "aten::add.Tensor",
    "Optimizer.step#AdamW.step",
    "torch.nn.functional.linear",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "Memcpy HtoD (Pageable -> Device)",
    "Memset (Device)",
    *("aten::add", "sched:sched_switch", "<module>", "f.<locals>.g", "read (file.py:12)", "finish_task_switch.isra.0"),
    *("runtime.(*mcache).refill", "runtime.mallocgc", "[unknown]", "-[NSObject init]", "python train.py --x", ""),
    *("/usr/bin/a::b", "torch/nn/module.py(1532): _call", "nn.Module: Linear_0", "ProfilerStep#3", "cudaLaunchKernel"),
    *("int (*get_fn(int))(char)", "f(", "::", "a::", "<>", "a)b<c"),
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
    with limit_cpu_s(1):
        shorten_symbol(name)


def test_names_that_would_look_the_same_full() -> None:
    names = ["a::b::C<int>::f()", "a::b::C<long>::f()", "a::b::D::f()", "main"]
    assert [*map(shorten_distinct(names), names)] == ["a::b::C<int>::f()", "a::b::C<long>::f()", "D::f", "main"]
    assert shorten_distinct(["D::f", "a::D::f()"])("a::D::f()") == "a::D::f()"

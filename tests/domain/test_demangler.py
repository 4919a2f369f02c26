"""Names of C++, Rust, D, Swift and the JVM become readable; all others remain unchanged."""

import random
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.symbols import native
from perfloom.domain.symbols.columns import find_candidates
from perfloom.domain.symbols.demangler import MAX_NAME, Demangler, may_be_encoded
from perfloom.domain.tables import get_strings
from tests.support import paths

HASH = "h0123456789abcdef"
READABLE = {
    # C++, as printed by c++filt
    "_ZN4llvm9StoreInst11setVolatileEb": "llvm::StoreInst::setVolatile(bool)",
    "_ZNSt6vectorIiSaIiEE9push_backEOi": "std::vector<int, std::allocator<int> >::push_back(int&&)",
    "_Z13readULEB128AsIjLi0EET_RN4llvm13DataExtractorERNS2_6CursorERNS1_5ErrorE": "unsigned int readULEB128As<unsigned int, 0>(llvm::DataExtractor&, llvm::DataExtractor::Cursor&, llvm::Error&)",
    "_Z5isRegILj179EEbRKN4llvm6MCInstEj.part.0": "bool isReg<179u>(llvm::MCInst const&, unsigned int) [clone .part.0]",
    "_ZN12_GLOBAL__N_13runEi": "(anonymous namespace)::run(int)",
    "_ZZ4mainENKUlvE_clEv": "main::{lambda()#1}::operator()() const",
    "_ZThn8_N3foo3barEv": "non-virtual thunk to foo::bar()",
    "_ZTVN4grpc13ServerBuilderE": "vtable for grpc::ServerBuilder",
    "_Znwm": "operator new(unsigned long)",
    "_ZdlPvm@plt": "operator delete(void*, unsigned long)@plt",
    "_ZNSo3putEc@@GLIBCXX_3.4": "std::basic_ostream<char, std::char_traits<char> >::put(char)@@GLIBCXX_3.4",
    "_ZN3foo3barEv.cold": "foo::bar() [clone .cold]",
    "_ZN3foo3barEv.constprop.0.isra.0": "foo::bar() [clone .constprop.0] [clone .isra.0]",
    "_ZN3foo3barEv.llvm.12345": "foo::bar() [clone .llvm.12345]",
    "_ZN3foo3barEv.part.0.cold@plt": "foo::bar() [clone .part.0] [clone .cold]@plt",
    "__ZN3foo3barEv": "foo::bar()",
    # Rust, legacy
    f"_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$17{HASH}E": "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>",
    f"_ZN9hashbrown3raw21RawTable$LT$T$C$A$GT$14reserve_rehash17{HASH}E.llvm.77": "hashbrown::raw::RawTable<T,A>::reserve_rehash [clone .llvm.77]",
    f"core::ptr::drop_in_place<alloc::vec::Vec<u8>>::{HASH}": "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
    f"_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$::drop::{HASH}": "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
    f"<&T as core::fmt::Debug>::fmt::{HASH}.llvm.12": "<&T as core::fmt::Debug>::fmt.llvm.12",
    # Rust, v0: symbols of the packages cryptography, rpds and ruff
    "_RNvMNtNtCsk4HGuldv8R4_18ruff_python_parser6parser9statementNtB4_6Parser17parse_dotted_name": "<ruff_python_parser::parser::Parser>::parse_dotted_name",
    "_RINvNtCskADBYZwJmSU_4core3ptr9drop_glueINtNtNtNtNtCskP5M6jlK8BH_12aho_corasick6packed5teddy7builder6x86_647FatAVX2Kj4_EEBM_": "core::ptr::drop_glue::<aho_corasick::packed::teddy::builder::x86_64::FatAVX2<4>>",
    "_RNvXs_NtNtCskHAjovcX8Y2_14regex_automata4util8alphabetNtB4_4UnitNtNtCskADBYZwJmSU_4core3fmt5Debug3fmt": "<regex_automata::util::alphabet::Unit as core::fmt::Debug>::fmt",
    "_RINvMNtCscsgciYtMz14_10rayon_core5sleepNtB3_5Sleep5sleepNCNvMs8_NtB5_8registryNtB10_12WorkerThread15wait_until_cold0EB5_": "<rayon_core::sleep::Sleep>::sleep::<<rayon_core::registry::WorkerThread>::wait_until_cold::{closure#0}>",
    "_RINvMNtNtCsfdsKYLNyhg7_4rpds3map13hash_trie_mapINtB3_4NodeNtCsfEKrbt0A2Rl_4rpds3KeyuNtNtNtNtCsRpcdXIqJoW_7archery14shared_pointer4kind4arct5ArcTKE6removeBU_EBW_.llvm.98946482497146979": "<rpds::map::hash_trie_map::Node<rpds::Key, (), archery::shared_pointer::kind::arct::ArcTK>>::remove::<rpds::Key> [clone .llvm.98946482497146979]",
    # D and Swift
    "_D4test3fooFiZi": "test.foo(int)",
    "_D3std5stdio12__ModuleInfoZ@plt": "ModuleInfo for std.stdio@plt",
    "$s4main3fooyyF": "main.foo() -> ()",
    "_$s4test3FooV3bar1xS2i_tF.cold": "test.Foo.bar(x: Swift.Int) -> Swift.Int [clone .cold]",
    # JVM
    "Ljava/util/HashMap;::get": "java.util.HashMap.get",
    "Ljava/util/HashMap:::get": "java.util.HashMap.get",
    "io/netty/buffer/AbstractByteBuf:.forEachByteAsc0": "io.netty.buffer.AbstractByteBuf.forEachByteAsc0",
    "Ljava/lang/StringLatin1;equals([B[B)Z": "java.lang.StringLatin1.equals(byte[], byte[])",
    "Lio/netty/buffer/AppendableCharSequence;.append(C)Lio/netty/util/internal/Appendab": "io.netty.buffer.AppendableCharSequence.append(char)",
    "Lorg/vertx/VertxHandler;.channelRead(Lio/netty/channel/ChannelHandlerContext;Lja": "org.vertx.VertxHandler.channelRead(io.netty.channel.ChannelHandlerContext, …)",
    "java/util/HashMap::get": "java.util.HashMap.get",
    "Lcom/foo/Bar;.baz(I[Ljava/lang/String;)V": "com.foo.Bar.baz(int, java.lang.String[])",
    "Lcom/a/B;::outer->Lcom/c/D;::inner": "com.a.B.outer->com.c.D.inner",
    "java/util/HashMap.get": "java.util.HashMap.get",
    "java/lang/String.<init>([BIJ)V": "java.lang.String.<init>(byte[], int, long)",
    "java/util/Map$Entry.of()[[Z": "java.util.Map$Entry.of()",
    "scala/collection/immutable/List.$plus": "scala.collection.immutable.List.$plus",
    "Foo$$Lambda$14/0x00000008000c1840": "Foo$$Lambda$14",
    "com/foo/Bar$$Lambda$14.0x00000008000c1840.run": "com.foo.Bar$$Lambda$14.run",
    "com.foo.Bar$$Lambda/0x00007f00000c1840.apply": "com.foo.Bar$$Lambda.apply",
    "com.foo.Bar$$Lambda$7/1234567.apply": "com.foo.Bar$$Lambda$7.apply",
    "java/lang/invoke/LambdaForm$MH/0x0000000800066c00.invoke": "java.lang.invoke.LambdaForm$MH.invoke",
}
UNCHANGED = (
    *("main", "", "_", "_Z", "_R", "__libc_start_main@@GLIBC_2.34", "do_syscall_64", "foo.cold", "_RESET", "_Rxyz"),
    *(
        "_ZN3foo",
        "_D9foo",
        "_DYNAMIC",
        "$start",
        "$s9foo",
        "_Zfoo",
        "_ZN99foo",
        "_RNvC9abc",
        "_ZN3fooEv\n",
        "_ZN3foo3barEv cold",
        "void f<int>(int)",
        "operator$",
    ),
    *("encoding/json.Marshal", "net/http.(*conn).serve", "github.com/Foo/bar.Baz", "go/parser.ParseFile"),
    *(
        "/usr/lib/libfoo.so",
        "com/foo/Bar.java",
        "src/Foo.run",
        "aten::add",
        "model/Layer.call",
        "[libc.so.6]",
        "Lfoo;",
        "$x",
    ),
    *("java.util.HashMap.get", "void java.util.HashMap.put(java.lang.Object)", "java/util/HashMap.get(Q)V"),
)


def nested_pairs(count: int) -> str:
    """A valid name whose readable form doubles with each of `count` references."""
    name = "_Z1f1A1PIS_S_E"
    for part in range(2, count + 2):
        index = ("" if part == 0 else "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[part - 1]) if part < 37 else "Z"
        name += f"S0_IS{index}_S{index}_E"
    return name


@pytest.mark.parametrize("name", READABLE)
def test_encoded_names_become_readable(name: str) -> None:
    assert Demangler().format(name) == READABLE[name]


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_names_are_unchanged(name: str) -> None:
    assert Demangler().format(name) == name


def test_names_of_a_profile_are_readable_and_kept_raw() -> None:
    builder = ProfileBuilder("test")
    for name in ("_ZN3foo3barEv", "main", "[unknown]"):
        builder.intern_function(name, "/bin/x")
    functions = builder.finish().functions
    assert get_strings(functions, "name") == ["_ZN3foo3barEv", "main", "[unknown]"]
    assert get_strings(functions, "display") == ["foo::bar()", "main", "[x]"]


def test_names_are_demangled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(native.NativeDemangler, "demangle", lambda self, name: calls.append(name))
    demangler = Demangler()
    assert [demangler.format(name) for name in ("_ZN3fooEv", "_Z3barv", "_ZN3fooEv")] == [
        *("_ZN3fooEv", "_Z3barv", "_ZN3fooEv"),
    ]
    assert calls == ["_ZN3fooEv", "_Z3barv"]


def test_library_is_loaded_for_the_first_mangled_name() -> None:
    code = """
import sys
from perfloom.domain.symbols.demangler import Demangler
demangler = Demangler()
for name in ("main", "java/util/HashMap.get", "_ZN3foo3barEv"):
    demangler.format(name)
    print("demangle" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


def test_long_names_are_unchanged() -> None:
    fits, longer = (f"_Z{count}{'a' * count}v" for count in (MAX_NAME - 7, MAX_NAME))
    assert Demangler().format(fits) == f"{'a' * (MAX_NAME - 7)}()"
    assert Demangler().format(longer) == longer


def test_names_that_grow_exponentially_are_unchanged() -> None:
    short, *long = (nested_pairs(count) for count in (2, 12, 20, 30))
    assert (
        Demangler().format(short)
        == "f(A, P<A, A>, P<P<A, A>, P<A, A> >, P<P<P<A, A>, P<A, A> >, P<P<A, A>, P<A, A> > >)"
    )
    assert [Demangler().format(name) for name in long] == long


def test_slow_names_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "SLOW_S", 0.0)
    monkeypatch.setattr(native, "MAX_SLOW_S", 1e-9)
    demangler = Demangler()
    assert demangler.format("_ZN3foo3barEv") == "foo::bar()"
    assert demangler.format("_ZN3foo3bazEv") == "_ZN3foo3bazEv"


HOSTILE = {
    "backtracking": "_ZNSt7__Nxx1112basic_stringIwSt11char_traitsIwESaI" + "sIwESaI" * 280,
    "backtracking that ends": "_ZNSt7__Nxx1112basic_stringIwSt11char_traitsIwESaI" + "sIwESaI" * 40 + "E" * 80,
    "pointers": "_Z1f" + "P" * 2_000 + "i",
    "functions": "_Z1f" + "PF" * 600 + "v" + "E" * 600,
    "expressions": "_Z1fIX" + "ng" * 900 + "Li1EEE",
    "locals": "_ZZ" * 680,
    "references of Rust": "_RIC1a" + "R" * 2_000 + "uE",
    "pointers of D": "_D1aF" + "P" * 2_000 + "iZv",
    "functions of D": "_D1aF" + "PF" * 900 + "Zv",
    "references of D": "_D1aF" + "Qa" * 900 + "Zv",
    "tuples of Swift": "$s1a1b" + "yyXE" * 450 + "F",
    "substitutions of Swift": "$s1a1b" + "AaB" * 650 + "F",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_names_take_bounded_time(what: str) -> None:
    demangler = Demangler()
    demangler.format("_Z1fv")
    before = time.thread_time()
    demangler.format(HOSTILE[what])
    assert time.thread_time() - before < 1


@given(
    st.text()
    | st.text("_ZRNSTIEKPLDpvi0123456789$./;:()[]<>h@").map("_Z{}".format)
    | st.from_regex(r"\A_R[BCIMNXYs_0-9a-zE]{0,40}\Z")
    | st.text("FPQAaZiv0123SHTGMyX").map("_D4test{}".format)
    | st.text("yFXESiVCOAaBtGd_0123m").map("$s4test{}".format)
)
@example("_R" + "N" * 2000)
@example("_Z" + "P" * 2000 + "i")
@example("_ZN" + "1aI" * 600)
@example("L" + ";" * 2000)
@example("a/" * 1000)
@example("L" + "[" * 2000 + ";::")
def test_random_names_become_printable_or_are_unchanged(name: str) -> None:
    shown = Demangler().format(name)
    assert shown == name or (0 < len(shown) <= max(native.MAX_DISPLAY, 2 * len(name)))


@given(st.lists(st.sampled_from(sorted({*READABLE, *UNCHANGED})) | st.text(":h$L_/ab", max_size=5)), st.integers(0, 9))
def test_columns_contain_all_encoded_names(names: list[str], start: int) -> None:
    found = set(find_candidates(pa.array(names, pa.string())[start:]).tolist())
    assert found >= {row for row, name in enumerate(names[start:]) if may_be_encoded(name)}


@given(st.sampled_from(sorted(READABLE)), st.randoms(use_true_random=False))
def test_damaged_names_do_not_fail(name: str, chance: random.Random) -> None:
    parts = ["S_", "S0_", "T_", "Dp", "E", "I", "J", "_", "$", "/", ";", "9", "\x00", "\ud800"]
    for _ in range(chance.randint(1, 8)):
        at, end = sorted(chance.choices(range(len(name) + 1), k=2))
        name = name[:at] + chance.choice(["", *parts, name[at:end] * 2]) + name[chance.choice([at, end]) :]
    shown = Demangler().format(name)
    assert isinstance(shown, str) and bool(shown) == bool(name)

"""C++ names as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.profile.symbols.cpp_names import demangle, shorten_name, unify_alias


@pytest.mark.parametrize(
    ("mangled", "whole", "label"),
    [
        ("main", "main", "main"),
        (
            "_ZN11ha_innobase4openEPKcij",
            "ha_innobase::open(char const*, int, unsigned int)",
            "ha_innobase::open",
        ),
        ("_ZSt4sortIPiEvT_S1_", "void std::sort<int*>(int*, int*)", "std::sort<…>"),
        ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()", "(anonymous namespace)::f"),
        (
            "_ZnwmRKSt9nothrow_t",
            "operator new(unsigned long, std::nothrow_t const&)",
            "operator new",
        ),
        (
            "_ZNKSt8functionIFvvEEclEv",
            "std::function<void ()>::operator()() const",
            "std::function<…>::operator()",
        ),
        ("_ZlsRSoRK3Foo", "operator<<(std::ostream&, Foo const&)", "operator<<"),
        ("_ZN3FoocvbEv", "Foo::operator bool()", "Foo::operator bool"),
        ("_ZN3FooptEv", "Foo::operator->()", "Foo::operator->"),
        ("_ZN3FoogtERKS_", "Foo::operator>(Foo const&)", "Foo::operator>"),
        ("_Z1fv.cold", "f() [clone .cold]", "f [.cold]"),
        (
            "_ZZN3foo3barEvENKUlvE_clEv",
            "foo::bar()::{lambda()#1}::operator()() const",
            "foo::bar::{lambda#1}::operator()",
        ),
        ("_ZThn8_N3FooD0Ev", "non-virtual thunk to Foo::~Foo()", "non-virtual thunk to Foo::~Foo"),
        ("_ZTV3Foo", "vtable for Foo", "vtable for Foo"),
        ("_ZN3Foo3getB5cxx11Ev", "Foo::get[abi:cxx11]()", "Foo::get"),
        (
            "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4sizeEv",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::size() const",
            "std::string::size",
        ),
        ("_Znonsense", "_Znonsense", "_Znonsense"),
    ],
)
def test_names(mangled: str, whole: str, label: str) -> None:
    assert demangle(mangled) == whole
    assert shorten_name(whole) == label


@pytest.mark.parametrize(
    ("symbol", "module", "said"),
    [
        ("__libc_malloc", "libc.so.6", "malloc"), ("malloc", "libc.so.6", "malloc"), ("__free", "libc-2.31.so", "free"),
        ("___pthread_rwlock_rdlock", "libc.so.6", "pthread_rwlock_rdlock"),
        ("__GI___pthread_mutex_lock", "libpthread-2.31.so", "pthread_mutex_lock"), ("__mmap", "libc.so.6", "mmap"),
        ("_int_malloc", "libc.so.6", "_int_malloc"), ("__lll_lock_wait", "libc.so.6", "__lll_lock_wait"),
        ("__libc_start_main", "libc.so.6", "__libc_start_main"), ("__libc_malloc", "mariadbd", "__libc_malloc"),
        ("__GI_qsort", "libc.so.6", "qsort"),
    ],
)  # fmt: skip
def test_a_function_of_the_c_library_has_one_name(symbol: str, module: str, said: str) -> None:
    assert unify_alias(symbol, module) == said


@given(st.text(max_size=40) | st.text("abc:<>(){}&* ~#[]operator newconst::->,", max_size=60))
def test_any_text_has_a_label(name: str) -> None:
    assert shorten_name(name) or not name
    assert demangle(name) == name or name.startswith(("_Z", "__Z"))

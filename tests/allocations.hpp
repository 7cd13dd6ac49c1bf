// tests/allocations.hpp: counts what each thread asks operator new for. For one file of a program: it replaces that.
#pragma once

#include <cstdlib>
#include <new>

namespace {

constinit thread_local long allocations = 0;

/// How many a call needs after the first `warm` ones, each time.
template <class F>
double allocations_of(F&& call, int warm = 1) {
  for (int i = 0; i < warm; ++i) call();
  constexpr int calls = 20;
  const long before = allocations;
  for (int i = 0; i < calls; ++i) call();
  return static_cast<double>(allocations - before) / calls;
}

}  // namespace

// Every other form calls these; AddressSanitizer's nothrow one does not.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes ? bytes : 1);
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }

// What the C++ headers do when there is no memory, and the owner that their RAII types share.
//
// Where exceptions are on, no memory is std::bad_alloc, a length that overflows std::bad_array_new_length and a bad argument
// std::invalid_argument. Where they are off (-fno-exceptions), each is one line on stderr, then std::abort: no call returns NULL that a
// container would write to. Functions marked noexcept that return a pointer return nullptr in both cases. Compile all of a program one
// way: of an inline function that was compiled in both, the linker keeps either.
//
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_FAILURE_HPP
#define HEDDLE_FAILURE_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

#include "../heddle.h"

// std::pmr is there from GCC 9, or LLVM 16, on; before, the classes made for it are not.
#if __has_include(<memory_resource>)
#include <memory_resource>
#define HEDDLE_PMR 1
#else
#define HEDDLE_PMR 0
#endif

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define HEDDLE_EXCEPTIONS 1
#else
#define HEDDLE_EXCEPTIONS 0
#endif

namespace heddle {
namespace detail {

// What every block is aligned to.
inline constexpr std::size_t alignment_always = 16;

[[noreturn]] inline void stop(const char *what) noexcept {
  std::fprintf(stderr, "heddle: %s\n", what);
  std::abort();
}

[[noreturn]] inline void out_of_memory() {
#if HEDDLE_EXCEPTIONS
  throw std::bad_alloc();
#else
  stop("out of memory");
#endif
}

[[noreturn]] inline void bad_length() {
#if HEDDLE_EXCEPTIONS
  throw std::bad_array_new_length();
#else
  stop("more elements than an array can have");
#endif
}

[[noreturn]] inline void bad_argument(const char *what) {
#if HEDDLE_EXCEPTIONS
  throw std::invalid_argument(what);
#else
  stop(what);
#endif
}

// A create function gave NULL.
[[noreturn]] inline void creation_failed(const char *what) {
  if (errno == EINVAL) bad_argument(what);
  out_of_memory();
}

// The bytes of count objects of type T.
template <class T>
constexpr std::size_t bytes_of(std::size_t count) {
  if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T)) bad_length();
  return count * sizeof(T);
}

// As operator new does: the process's new-handler may find memory; without one it is a failure.
inline void ask_new_handler() {
  std::new_handler handler = std::get_new_handler();
  if (handler == nullptr) out_of_memory();
  handler();
}

// Memory of the calling thread's heap.
inline void *obtain(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    void *p = alignment <= alignment_always ? hd_malloc(bytes) : hd_aligned_alloc(alignment, bytes);
    if (p != nullptr) return p;
    ask_new_handler();
  }
}

// Memory of a heap; a limit of its own is nothing a new-handler could know about.
inline void *obtain_from(hd_heap *heap, std::size_t bytes, std::size_t alignment) {
  if (heap == nullptr) return obtain(bytes, alignment);
  void *p = alignment <= alignment_always ? hd_heap_malloc(heap, bytes) : hd_heap_aligned_alloc(heap, alignment, bytes);
  if (p == nullptr) out_of_memory();
  return p;
}

// The owner of a C object: std::unique_ptr with the function that ends it.
template <auto destroy>
struct destroyer {
  template <class T>
  void operator()(T *object) const noexcept {
    destroy(object);
  }
};
template <class T, auto destroy>
using owner = std::unique_ptr<T, destroyer<destroy>>;

}  // namespace detail

// For std::unique_ptr of what the C functions hand out: std::unique_ptr<char, heddle::deleter> copy(hd_strdup(text));
struct deleter {
  void operator()(void *p) const noexcept { hd_free(p); }
};

}  // namespace heddle
#endif

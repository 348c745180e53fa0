// Every form of operator new and delete: the block is aligned and writable, failures call the new-handler, throw bad_alloc or
// give null as the form says. Built twice: run under preload, and linked with heddle-override.o.
//
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../support/support.h"

extern "C" __attribute__((weak)) int hd_option_set(const char *name, const char *value); // of the library under test; 0: done

namespace {

int handled;
const volatile std::size_t impossible = SIZE_MAX / 2 + 4096;

using Align = std::align_val_t;

void *touch(void *p, std::size_t bytes, std::size_t alignment = 16) {
  TS_CHECK(p != nullptr, "null for %zu bytes", bytes);
  TS_CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0, "%p is not aligned to %zu", p, alignment);
  std::memset(p, 0x41, bytes);
  return p;
}

void all_forms(std::size_t n) {
  const Align wide{n % 2 ? 64u : 4096u};
  const auto w = static_cast<std::size_t>(wide);
  ::operator delete(touch(::operator new(n), n));
  ::operator delete(touch(::operator new(n), n), n);
  ::operator delete(touch(::operator new(n, std::nothrow), n), std::nothrow);
  ::operator delete[](touch(::operator new[](n), n));
  ::operator delete[](touch(::operator new[](n), n), n);
  ::operator delete[](touch(::operator new[](n, std::nothrow), n), std::nothrow);
  ::operator delete(touch(::operator new(n, wide), n, w), wide);
  ::operator delete(touch(::operator new(n, wide), n, w), n, wide);
  ::operator delete(touch(::operator new(n, wide, std::nothrow), n, w), wide, std::nothrow);
  ::operator delete[](touch(::operator new[](n, wide), n, w), wide);
  ::operator delete[](touch(::operator new[](n, wide), n, w), n, wide);
  ::operator delete[](touch(::operator new[](n, wide, std::nothrow), n, w), wide, std::nothrow);
  // The families mix.
  std::free(touch(::operator new(n), n));
  ::operator delete(touch(std::malloc(n), n));
}

void deletes_of_null() {
  void *const none = nullptr;
  ::operator delete(none);
  ::operator delete[](none);
  ::operator delete(none, std::size_t{8});
  ::operator delete[](none, std::size_t{8});
  ::operator delete(none, Align{64});
  ::operator delete[](none, std::size_t{8}, Align{64});
}

void give_up() {
  handled++;
  std::set_new_handler(nullptr);
}

void retry_twice() {
  if (++handled == 3) std::set_new_handler(nullptr);
}

void throw_own() { throw std::bad_alloc(); }

template <class Call> void expect_throw(const char *what, Call call) {
  bool thrown = false;
  handled = 0;
  std::set_new_handler(give_up);
  try {
    void *volatile p = call();
    TS_CHECK(p == nullptr, "%s gave %p", what, p);
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  TS_CHECK(thrown, "%s did not throw bad_alloc", what);
  TS_CHECK(handled == 1, "%s called the new-handler %d times", what, handled);
}

template <class Call> void expect_null(const char *what, Call call) {
  handled = 0;
  std::set_new_handler(give_up);
  void *volatile p = call();
  TS_CHECK(p == nullptr, "%s gave %p", what, p);
  // The library's operators are written in C, which cannot catch what a handler throws: nothrow forms need not call it.
  TS_CHECK(handled <= 1, "%s called the new-handler %d times", what, handled);
  std::set_new_handler(throw_own);
  p = call();
  TS_CHECK(p == nullptr, "%s gave %p after a throwing handler", what, p);
  std::set_new_handler(nullptr);
}

void failures() {
  expect_throw("new", [] { return ::operator new(impossible); });
  expect_throw("new[]", [] { return ::operator new[](impossible); });
  expect_throw("aligned new", [] { return ::operator new(impossible, Align{64}); });
  expect_throw("aligned new[]", [] { return ::operator new[](impossible, Align{64}); });
  expect_null("nothrow new", [] { return ::operator new(impossible, std::nothrow); });
  expect_null("nothrow new[]", [] { return ::operator new[](impossible, std::nothrow); });
  expect_null("aligned nothrow new", [] { return ::operator new(impossible, Align{64}, std::nothrow); });
  expect_null("aligned nothrow new[]", [] { return ::operator new[](impossible, Align{64}, std::nothrow); });
  handled = 0;
  std::set_new_handler(retry_twice);
  try {
    void *volatile p = ::operator new(impossible);
    TS_CHECK(p == nullptr, "impossible");
  } catch (const std::bad_alloc &) {
  }
  TS_CHECK(handled == 3, "new retried %d times instead of 3", handled);
}

struct alignas(128) Wide {
  char bytes[128];
};

void containers() {
  std::map<std::string, std::vector<std::shared_ptr<Wide>>> all;
  for (int i = 0; i < 2000; i++) {
    auto wide = std::make_shared<Wide>();
    TS_CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 128 == 0, "a shared object is not aligned");
    all[std::string(static_cast<std::size_t>(i % 100) + 1, 'k')].push_back(wide);
  }
  TS_CHECK(all.size() == 100, "%zu keys", all.size());
}

struct Link {
  Link *next;
};

Link *held;

void drop_all() {
  while (held != nullptr) {
    Link *const next = held->next;
    ::operator delete(held);
    held = next;
  }
}

void give_back() {
  handled++;
  if (held == nullptr) std::set_new_handler(nullptr);
  drop_all();
}

// Until there is no memory: it is told by an exception, and a handler that gives memory back makes the same call end well.
void until_the_end(std::size_t bytes) {
  bool thrown = false;
  std::size_t count = 0;
  try {
    for (; count < 10000000; count++) {
      void *const p = ::operator new(bytes);
      TS_CHECK(p != nullptr, "new of %zu bytes gave null", bytes);
      held = new (p) Link{held};
    }
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  TS_CHECK(thrown && count > 0, "%zu blocks of %zu bytes and no end", count, bytes);
  handled = 0;
  std::set_new_handler(give_back);
  ::operator delete[](touch(::operator new[](bytes), bytes));
  TS_CHECK(handled <= 1, "the handler was called %d times for %zu bytes", handled, bytes);
  if (handled == 0) drop_all(); // one of the exception's own blocks had been free again
  std::set_new_handler(nullptr);
}

} // namespace

int main() {
  for (std::size_t n : {0, 1, 8, 17, 100, 1000, 5000, 70000, 3000000}) all_forms(n);
  deletes_of_null();
  failures();
  containers();
  TS_CHECK(hd_option_set != nullptr && hd_option_set("limit", "16M") == 0, "the limit could not be set");
  for (std::size_t bytes : {16, 100, 1000, 5000, 40000, 300000}) until_the_end(bytes);
  void *(*volatile probe)(std::size_t) = std::malloc; // linked: the override object must be what malloc is
  std::free(probe(1));
  std::puts("operators: ok");
}

// The header alone, as C++17.
// SPDX-License-Identifier: MIT
#include "heddle/lua.h"

int main() {
  hd_lua_heap *heap = hd_lua_heap_create(nullptr);
  void *p = hd_lua_alloc(heap, nullptr, 0, 100);
  hd_lua_heap_destroy(heap);
  return p != nullptr ? 0 : 1;
}

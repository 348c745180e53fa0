// All of Heddle for C++17: allocators, memory resources, and owners of heaps, arenas, marks, frames and pools.
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_HEDDLE_HPP
#define HEDDLE_HEDDLE_HPP

#include "allocator.hpp"
#include "arena.hpp"
#include "frame.hpp"
#include "heap.hpp"
#include "memory_resource.hpp"
#include "pool.hpp"

#endif

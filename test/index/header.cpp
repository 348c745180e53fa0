// The header alone, as C++17.
// SPDX-License-Identifier: MIT
#include "header.c"

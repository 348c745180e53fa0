// The same from C++. SPDX-License-Identifier: MIT
#include "alone.c"

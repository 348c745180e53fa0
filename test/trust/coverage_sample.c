/* What coverage_selftest builds, runs and judges: one function is never called, one branch never taken.
 * SPDX-License-Identifier: MIT */
static int never_called(int n) {
  return n + 1;
}

static int half_taken(int n) {
  if (n > 0) return 1;
  return never_called(n);
}

int main(void) {
  return half_taken(1) == 1 ? 0 : 1;
}

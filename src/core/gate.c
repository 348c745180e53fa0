/* See gate.h.
 * SPDX-License-Identifier: MIT */
#include "core/gate.h"

#include "os/os.h"

void hdi_gate_wait(hd_heap *heap) {
  while (hd_load_acquire(&heap->stopped) != 0) hdi_os_wait(&heap->stopped, 1u, 1);
}

void hdi_gate_raise(hd_heap *heap) { hd_store_relaxed(&heap->stopped, 1u); }

bool hdi_gate_barrier(void) {
  atomic_thread_fence(memory_order_seq_cst);
  return hdi_os_heavy_barrier();
}

/* After the barrier: true when the owner is outside and stays there until hdi_gate_open. */
bool hdi_gate_settle(hd_heap *heap, int tries) {
  while (hd_load_acquire(&heap->busy) != 0) {
    if (--tries <= 0) return false;
    hdi_os_yield();
  }
  return true;
}

void hdi_gate_open(hd_heap *heap) {
  hd_store_release(&heap->stopped, 0u);
  hdi_os_wake(&heap->stopped);
}

/* Misuse in the model test, where the option `onerror` lets the process go on: one report, and nothing else changes.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "parts.h"

static _Thread_local unsigned report_count;

static void count_report(const void *p, const char *code) {
  (void)p, (void)code;
  report_count++;
}

static void want_report(struct model *model, const char *what, const void *p) {
  if (report_count != 1) model_fail(model, "misuse", "%s of %p was reported %u times", what, p, report_count);
}

static void use_interior(struct model *model, unsigned kind, unsigned char *p) {
  const struct ts_sut *sut = model->sut;
  errno = ERRNO_MARK;
  if (kind == 1) {
    sut->free(p);
    want_report(model, "free of an interior pointer", p);
  } else if (kind == 2) {
    if (sut->realloc(p, 100)) model_fail(model, "misuse", "realloc of the interior pointer %p succeeded", (void *)p);
    want_report(model, "realloc of an interior pointer", p);
  } else {
    if (sut->usable_size(p)) model_fail(model, "misuse", "the interior pointer %p has a usable size", (void *)p);
    want_report(model, "usable_size of an interior pointer", p);
  }
}

void model_misuse(struct model *model, const struct op *op) {
  const struct ts_sut *sut = model->sut;
  struct block block = model->shadow.slot[op->slot];
  if (!model->forgiving || model->passed_through || !sut->misuse_hook_set || !block.at || block.heap < OWNER_THREAD) return;
  sut->misuse_hook_set(count_report);
  unsigned kind = (unsigned)(op->key & 3);
  report_count = 0;
  if (kind == 0 && !model->racing) { /* elsewhere another thread may have the block by now, and lose it */
    model_free_slot(model, op->slot, false);
    report_count = 0;
    sut->free(block.at);
    want_report(model, "a second free", block.at);
  } else if (kind != 0 && block.usable > 16) {
    use_interior(model, kind, block.at + 1 + op->key / 4 % (block.usable - 1));
    model_check_content(model, &block);
  }
}

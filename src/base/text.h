/* Text into a fixed buffer, without allocation, locale or locks: for reports, statistics and help.
 * A text that does not fit is cut, and `wanted` goes on counting, as snprintf does.
 * SPDX-License-Identifier: MIT */
#ifndef HD_BASE_TEXT_H
#define HD_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hd_text {
  char *buffer;    /* NULL allowed when bytes is 0 */
  size_t bytes;    /* its size */
  size_t wanted;   /* length of the whole text so far */
} hd_text;

void hdi_text_start(hd_text *text, char *buffer, size_t bytes);
void hdi_text_put(hd_text *text, const char *string);
void hdi_text_put_n(hd_text *text, const char *string, size_t length);
void hdi_text_decimal(hd_text *text, uint64_t value);
void hdi_text_hex(hd_text *text, uint64_t value);
/* The string padded with spaces to width: on the right when width is positive, on the left when negative. */
void hdi_text_pad(hd_text *text, const char *string, int width);
/* A count of bytes for people: "12.3 MiB". */
void hdi_text_bytes(hd_text *text, uint64_t bytes);

/* Length of what stands in the buffer. */
size_t hdi_text_length(const hd_text *text);

/* Read a whole decimal number, with an optional k, m, g or % free suffix of 1024s. false when it is anything else. */
bool hdi_text_read_bytes(const char *string, size_t length, uint64_t *value);

bool hdi_text_equal(const char *a, size_t length, const char *b);

#endif

/* A game's frame loop on frames: memory of a frame is never freed one by one, and the frame before stays readable.
 *
 *   cc -O2 game_loop.c -lheddle -o game_loop
 *   ./game_loop [frames]
 *
 * Each frame makes a list of particles. A particle's speed is read from the frame before, which doubled frames keep alive for one
 * round more. A frame may have 64 KiB; at an explosion that is not enough: the loop draws what fits and says what it dropped.
 * SPDX-License-Identifier: MIT */
#include <heddle/frame.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_BYTES = 64 << 10, EXPLOSION_EVERY = 100 };

typedef struct particle {
  float x, y, dx, dy;
  struct particle *next;
} particle;

typedef struct {
  particle *first;
  size_t count, dropped;
} scene;

/* How many particles the game wants in a frame: about a thousand, and three times as many when something explodes. */
static size_t wanted_particles(unsigned frame) { return frame % EXPLOSION_EVERY == EXPLOSION_EVERY - 1 ? 3000 : 900 + frame % 50; }

/* The next scene, from the last one, which lies in the other arena. NULL: not even the scene itself fits. */
static scene *build_scene(hd_frame *frame, unsigned number, const scene *last) {
  scene *now = hd_frame_alloc(frame, sizeof *now);
  if (!now) return NULL;
  *now = (scene){0};
  const particle *old = last ? last->first : NULL;
  particle **end = &now->first;
  for (size_t i = 0; i < wanted_particles(number); i++) {
    particle *p = hd_frame_alloc(frame, sizeof *p);
    if (!p) { /* ENOMEM: the frame is full. Nothing to clean up; the next hd_frame_begin forgets it all. */
      now->dropped++;
      continue;
    }
    *p = old ? (particle){old->x + old->dx, old->y + old->dy, old->dx, old->dy * 0.99f, NULL} : (particle){0, 0, 1, (float)i, NULL};
    old = old ? old->next : NULL;
    *end = p;
    end = &p->next;
    now->count++;
  }
  return now;
}

static double distance_travelled(const scene *now) {
  double sum = 0;
  for (const particle *p = now->first; p; p = p->next) sum += p->x;
  return sum;
}

int main(int argc, char **argv) {
  char *end = NULL;
  unsigned long frames = argc > 1 ? strtoul(argv[1], &end, 10) : 600;
  if (argc > 2 || (end && *end) || frames < 1 || frames > 1000000) {
    fprintf(stderr, "usage: game_loop [frames 1..1000000]\n");
    return 2;
  }
  hd_frame_config config = {.struct_bytes = sizeof config, .name = "scene", .capacity_bytes = FRAME_BYTES, .doubled = true};
  hd_frame *frame = hd_frame_create(&config);
  if (!frame) {
    fprintf(stderr, "game_loop: no frames of %d bytes: %s\n", FRAME_BYTES, strerror(errno));
    return 1;
  }
  const scene *last = NULL;
  size_t drawn = 0, dropped = 0;
  for (unsigned number = 0; number < frames; number++) {
    if (number > 0) hd_frame_begin(frame); /* what was laid two frames ago is gone, the last frame is still there */
    scene *now = build_scene(frame, number, last);
    if (!now) {
      fprintf(stderr, "game_loop: frame %u has no room for a scene\n", number);
      hd_frame_destroy(frame);
      return 1;
    }
    drawn += now->count;
    dropped += now->dropped;
    last = now;
  }
  printf("%lu frames: %zu particles drawn, %zu dropped\n", frames, drawn, dropped);
  printf("the last frame's particles have come %.0f units\n", distance_travelled(last));
  printf("most memory in one frame: %zu of %d bytes\n", hd_frame_peak(frame), FRAME_BYTES);
  hd_frame_destroy(frame);
  return 0;
}

/* A parser with node pools: nodes of two or three words in an index pool, names in a string pool.
 *
 *   cc -O2 parser.c -lheddle -lm -o parser
 *   ./parser [file]
 *
 * Statements are `name = expression ;` with + - * / ^, brackets and # comments. Nodes refer to each other by 32-bit index and are given
 * back when their statement is done; equal names are stored once and compared as numbers. A tree of more than 256 words ends in an
 * error of that statement alone.
 * SPDX-License-Identifier: MIT */
#include <heddle/index_pool.h>
#include <heddle/string_pool.h>

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREE_WORDS = 256, NESTING = 100, VARIABLES = 1000 };

static const char SAMPLE[] =
    "width = 6; height = 7;\n"
    "area = width * height;\n"
    "half = (area - 2 * width) / 2;   # 15\n"
    "volume = area * -2 ^ 3 ^ 0.5 + 0 * half;\n"
    "oops = area / (width - 6);\n"
    "unknown = 1 + depth;\n"
    "height = height + 1;\n"
    "broken = (1 + 2;\n"
    "golden = (1 + 5 ^ 0.5) / 2;\n";

/* A node is a row of 32-bit words: what it is, then its children, its name, or the two halves of its number. */
enum { WHAT, LEFT, RIGHT };
typedef enum { NUMBER = 'n', NAME = 'v', NEGATE = '~' } kind; /* or one of the operators, by its own character */

typedef struct {
  hd_index_pool *nodes;
  hd_string_pool *names;
  const char *at;            /* where the parser is */
  unsigned line, depth;
  bool complete;             /* the statement has been read to its end */
  const char *problem;       /* of this statement */
  jmp_buf give_up;           /* to its end */
  bool known[VARIABLES];     /* by number of the name */
  double value[VARIABLES];
} parser;

static _Noreturn void fail(parser *p, const char *problem) {
  p->problem = problem;
  longjmp(p->give_up, 1);
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------- */

static uint32_t new_node(parser *p, int what, uint32_t words, uint32_t left, uint32_t right) {
  uint32_t index = hd_index_pool_take(p->nodes, words);
  if (index == HD_INDEX_NONE) fail(p, "the expression is too large"); /* ENOMEM: the pool's maximum */
  uint32_t *node = hd_index_pool_at(p->nodes, index);
  node[WHAT] = (uint32_t)what;
  node[LEFT] = left;
  if (words == 3) node[RIGHT] = right;
  return index;
}

static uint32_t new_number(parser *p, double value) {
  uint32_t halves[2];
  memcpy(halves, &value, sizeof value);
  return new_node(p, NUMBER, 3, halves[0], halves[1]);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

static char look(parser *p) {
  for (;; p->at++) {
    if (*p->at == '#') p->at += strcspn(p->at, "\n");
    if (*p->at == '\n') p->line++;
    if (!isspace((unsigned char)*p->at)) return *p->at;
  }
}

static void expect(parser *p, char wanted, const char *problem) {
  if (look(p) != wanted) fail(p, problem);
  p->at++;
}

/* The number of the name that starts here. */
static uint32_t read_name(parser *p) {
  look(p);
  const char *start = p->at;
  while (isalnum((unsigned char)*p->at) || *p->at == '_') p->at++;
  if (p->at == start || isdigit((unsigned char)*start)) fail(p, "a name is missing");
  uint32_t name = hd_string_pool_append_32(p->names, start, (size_t)(p->at - start));
  if (name == HD_STRING_NONE_32) fail(p, "too many names"); /* ENOMEM: the pool's limit */
  return name;
}

static uint32_t read_sum(parser *p);

static uint32_t read_atom(parser *p) {
  if (++p->depth > NESTING) fail(p, "the expression is nested too deep");
  uint32_t node;
  char c = look(p);
  if (c == '(') {
    p->at++;
    node = read_sum(p);
    expect(p, ')', "a bracket is not closed");
  } else if (isdigit((unsigned char)c) || c == '.') {
    char *end;
    double value = strtod(p->at, &end);
    if (end == p->at) fail(p, "that is no number");
    p->at = end;
    node = new_number(p, value);
  } else if (c == '-') {
    p->at++;
    node = new_node(p, NEGATE, 2, read_atom(p), 0);
  } else {
    node = new_node(p, NAME, 2, read_name(p), 0);
  }
  if (look(p) == '^') { /* binds to the right */
    p->at++;
    node = new_node(p, '^', 3, node, read_atom(p));
  }
  p->depth--;
  return node;
}

static uint32_t read_product(parser *p) {
  uint32_t node = read_atom(p);
  while (look(p) == '*' || *p->at == '/') {
    char sign = *p->at++;
    node = new_node(p, sign, 3, node, read_atom(p));
  }
  return node;
}

static uint32_t read_sum(parser *p) {
  uint32_t node = read_product(p);
  while (look(p) == '+' || *p->at == '-') {
    char sign = *p->at++;
    node = new_node(p, sign, 3, node, read_product(p));
  }
  return node;
}

/* ---- evaluating: a node goes back to the pool as soon as its value is known --------------------------------------------- */

static double evaluate(parser *p, uint32_t index) {
  uint32_t node[3] = {0};
  memcpy(node, hd_index_pool_at(p->nodes, index), hd_index_pool_slots(p->nodes, index) * sizeof *node);
  hd_index_pool_give(p->nodes, index);
  if (node[WHAT] == NUMBER) {
    double value;
    memcpy(&value, &node[LEFT], sizeof value);
    return value;
  }
  if (node[WHAT] == NAME) {
    if (!p->known[node[LEFT]]) fail(p, "a name has no value");
    return p->value[node[LEFT]];
  }
  double left = evaluate(p, node[LEFT]);
  if (node[WHAT] == NEGATE) return -left;
  double right = evaluate(p, node[RIGHT]);
  switch (node[WHAT]) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      if (right == 0) fail(p, "division by zero");
      return left / right;
    default:
      return pow(left, right);
  }
}

/* After an error: behind the statement's semicolon, or at the end. */
static void skip_statement(parser *p) {
  while (look(p) && *p->at != ';') p->at++;
  if (*p->at) p->at++;
}

/* One statement; false when there was an error in it, which has been printed. */
static bool run_statement(parser *p) {
  p->depth = 0;
  p->complete = false;
  if (setjmp(p->give_up)) {
    printf("line %u: %s\n", p->line, p->problem);
    hd_index_pool_reset(p->nodes); /* whatever of the tree is left */
    if (!p->complete) skip_statement(p);
    return false;
  }
  uint32_t name = read_name(p);
  expect(p, '=', "a = is missing");
  uint32_t tree = read_sum(p);
  expect(p, ';', "a ; is missing");
  p->complete = true;
  double value = evaluate(p, tree);
  p->known[name] = true;
  p->value[name] = value;
  printf("%s = %.6g\n", hd_string_pool_text(p->names, name), value);
  return true;
}

/* ---- the program ---------------------------------------------------------------------------------------------------------- */

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  size_t used = 0, room = 0;
  char *text = NULL;
  while (file) {
    if (used == room) {
      char *more = realloc(text, (room = room ? room * 2 : 4096) + 1);
      if (!more) break;
      text = more;
    }
    size_t got = fread(text + used, 1, room - used, file);
    used += got;
    if (got == 0) {
      bool good = !ferror(file);
      fclose(file);
      text[used] = 0;
      if (good) return text;
      free(text);
      return NULL;
    }
  }
  free(text);
  if (file) fclose(file);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc > 2) {
    fprintf(stderr, "usage: parser [file]\n");
    return 2;
  }
  char *text = argc == 2 ? read_file(argv[1]) : NULL;
  if (argc == 2 && !text) {
    fprintf(stderr, "parser: %s cannot be read\n", argv[1]);
    return 2;
  }
  static parser p;
  hd_index_config nodes = {.struct_bytes = sizeof nodes, .name = "nodes", .slot_bytes = 4, .maximum = TREE_WORDS};
  hd_string_pool_config names = {.struct_bytes = sizeof names, .name = "names", .limit_count = VARIABLES, .intern = true};
  p.nodes = hd_index_pool_create(&nodes);
  p.names = hd_string_pool_create(&names);
  if (!p.nodes || !p.names) {
    perror("parser: no pools");
    return 1;
  }
  unsigned errors = 0, statements = 0;
  p.at = text ? text : SAMPLE;
  p.line = 1;
  for (; look(&p); statements++) errors += !run_statement(&p);
  hd_index_stats stats = {.struct_bytes = sizeof stats};
  hd_index_pool_stats_get(p.nodes, &stats);
  printf("%u statements, %u errors, %llu names; most nodes at once: %llu words, left: %llu\n", statements, errors,
         (unsigned long long)hd_string_pool_mark(p.names), (unsigned long long)stats.used_high, (unsigned long long)stats.used);
  hd_index_pool_destroy(p.nodes);
  hd_string_pool_destroy(p.names);
  free(text);
  return errors != 0;
}

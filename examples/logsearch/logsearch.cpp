// Searching a log: the allocation story of a log viewer, in a program that can be run under any allocator. See the guide's page
// "log search".
//
//   logsearch make FILE [--lines N] [--seed N]          writes a log of a million lines
//   logsearch search FILE [--how line|block|arena|mark] [--strings qt|plain] [options]
//   logsearch check FILE [options]                      all ways must find what a plain loop finds
//   options: --pattern TEXT --block-lines N --workers N --passes N --time
//
// Standard output says what was found and is the same under every allocator; --time adds a line on standard error.
// SPDX-License-Identifier: MIT
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "count.hpp"
#include "search.hpp"
#include "text.hpp"

using namespace logsearch;

namespace {

struct settings {
  std::string command, file, pattern = default_pattern;
  std::uint64_t lines = 1000000, seed = 1;
  std::size_t block_lines = 8000;
  unsigned workers = 2, passes = 1;
  how way = how::line;
  strings whose = has_qt ? strings::qt : strings::plain;
  bool time = false;
};

[[noreturn]] void fail(const std::string &sentence) {
  std::fprintf(stderr, "logsearch: %s\n", sentence.c_str());
  std::exit(2);
}

std::uint64_t number(const char *option, const char *text, std::uint64_t most) {
  char *end;
  errno = 0;
  unsigned long long value = std::strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || *text < '0' || *text > '9' || value == 0 || value > most) {
    fail(std::string(option) + " takes a number from 1 to " + std::to_string(most) + ", not '" + text + "'");
  }
  return value;
}

how way_named(const char *name) {
  for (how way : all_ways) {
    if (std::strcmp(name, names_of_ways[static_cast<int>(way)]) == 0) return way;
  }
  fail(std::string("--how is one of line, block, arena, mark, not '") + name + "'");
}

strings strings_named(const std::string &name) {
  if (name == "plain") return strings::plain;
  if (name != "qt") fail("--strings is qt or plain, not '" + name + "'");
  if (!has_qt) fail("this build has no Qt: --strings plain");
  return strings::qt;
}

settings parse(int argc, char **argv) {
  settings s;
  if (argc < 3) fail("usage: logsearch make|search|check FILE [options]; see the first lines of logsearch.cpp");
  s.command = argv[1];
  s.file = argv[2];
  if (s.command != "make" && s.command != "search" && s.command != "check") fail("'" + s.command + "' is not make, search or check");
  for (int i = 3; i < argc; i++) {
    std::string option = argv[i];
    if (option == "--time") {
      s.time = true;
      continue;
    }
    if (i + 1 == argc) fail(option + ": unknown, or its value is missing");
    const char *value = argv[++i];
    if (option == "--lines") s.lines = number("--lines", value, 1000000000);
    else if (option == "--seed") s.seed = number("--seed", value, UINT64_MAX);
    else if (option == "--pattern") s.pattern = value;
    else if (option == "--block-lines") s.block_lines = number("--block-lines", value, 1000000);
    else if (option == "--workers") s.workers = static_cast<unsigned>(number("--workers", value, 256));
    else if (option == "--passes") s.passes = static_cast<unsigned>(number("--passes", value, 1000000));
    else if (option == "--how") s.way = way_named(value);
    else if (option == "--strings") s.whose = strings_named(value);
    else fail("there is no option " + option);
  }
  return s;
}

// A number for what was found, so that two runs can be compared at a glance (FNV-1a).
std::uint64_t digest(const std::vector<std::uint64_t> &lines) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::uint64_t line : lines) {
    for (int i = 0; i < 8; i++) hash = (hash ^ (line >> (8 * i) & 0xff)) * 0x100000001b3u;
  }
  return hash;
}

std::size_t peak_rss() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

found search_or_fail(const log_file &log, const matcher &pattern, const settings &s, how way, strings whose) {
  found result = search(log, pattern, way, whose, s.workers);
  if (!result.complete) fail(s.file + ": it changed while it was read");
  return result;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval &t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double wall_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void print_time(const log_file &log, const settings &s, double wall, double cpu) {
  std::fprintf(stderr, "wall %.6f s, cpu %.6f s, %.1f MB/s, peak %.1f MB\n", wall, cpu,
               static_cast<double>(log.bytes()) * s.passes / wall / 1e6, static_cast<double>(peak_rss()) / 1e6);
}

void print_counts(const log_file &log, const settings &s, const allocation_counts &a, const allocation_counts &b) {
  auto lines = static_cast<double>(log.lines() * s.passes), blocks = static_cast<double>(log.block_count() * s.passes);
  auto allocations = static_cast<double>(b.allocations - a.allocations), resizes = static_cast<double>(b.resizes - a.resizes);
  auto bytes = static_cast<double>(b.bytes - a.bytes);
  std::fprintf(stderr, "allocations %.0f, resizes %.0f: a line %.4f and %.4f, a block %.1f and %.1f; bytes a line %.1f\n", allocations,
               resizes, allocations / lines, resizes / lines, allocations / blocks, resizes / blocks, bytes / lines);
}

int search_command(const log_file &log, const matcher &pattern, const settings &s) {
  found result;
  allocation_counts before{};
  if (count_allocations != nullptr) before = count_allocations();
  double wall = wall_seconds(), cpu = cpu_seconds();
  for (unsigned pass = 0; pass < s.passes; pass++) result = search_or_fail(log, pattern, s, s.way, s.whose);
  wall = wall_seconds() - wall;
  cpu = cpu_seconds() - cpu;
  if (count_allocations != nullptr) print_counts(log, s, before, count_allocations());
  if (s.time) print_time(log, s, wall, cpu);
  std::printf("%llu lines, %zu match, digest %016llx\n", static_cast<unsigned long long>(log.lines()), result.lines.size(),
              static_cast<unsigned long long>(digest(result.lines)));
  return 0;
}

// What a loop of a few lines finds, without blocks, threads, conversions or arenas.
std::vector<std::uint64_t> plain_search(const settings &s, const matcher &pattern) {
  matcher::asker asker(pattern);
  std::ifstream file(s.file, std::ios::binary);
  std::vector<std::uint64_t> lines;
  std::uint64_t count = 0;
  for (std::string line; std::getline(file, line); count++) {
    if (asker.matches(line)) lines.push_back(count);
  }
  return lines;
}

// What is no UTF-8 must become U+FFFD, what is must come back as it was.
bool check_conversions() {
  struct { const char *text; const char *back; } const cases[] = {
      {"", ""}, {"plain ASCII of more than sixteen bytes, twice", nullptr}, {"ä €uro 😀 Łukasz 李小龍 and a tail of ASCII", nullptr},
      {"\xff", "\xef\xbf\xbd"}, {"a\xc3", "a\xef\xbf\xbd"}, {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, {"\xf4\x90\x80\x80!", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!"},
      {"\xe2\x82 cut", "\xef\xbf\xbd\xef\xbf\xbd cut"}};
  plain_strings<std::allocator<char>> strings;
  for (auto &one : cases) {
    auto shown = strings.decode(one.text);
    auto back = strings.encode(shown);
    if (back.view() == (one.back == nullptr ? one.text : one.back)) continue;
    std::printf("conversion of '%s' gave '%s'\n", one.text, std::string(back.view()).c_str());
    return false;
  }
  const char16_t halves[] = {0xd800, u'x', 0xdc00};
  std::string back(encoded_bytes({halves, 3}), ' ');
  encode({halves, 3}, back.data());
  return back == "\xef\xbf\xbdx\xef\xbf\xbd";
}

int check_command(const log_file &log, const matcher &pattern, const settings &s) {
  if (!check_conversions()) return 1;
  std::vector<std::uint64_t> expected = plain_search(s, pattern);
  for (strings whose : {strings::plain, strings::qt}) {
    if (whose == strings::qt && !has_qt) continue;
    for (how way : all_ways) {
      found result = search_or_fail(log, pattern, s, way, whose);
      bool same = result.lines == expected;
      std::printf("%s, %s: %zu of %llu lines match, %s\n", names_of_ways[static_cast<int>(way)], whose == strings::qt ? "Qt" : "plain",
                  result.lines.size(), static_cast<unsigned long long>(log.lines()), same ? "as expected" : "WRONG");
      if (!same) return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  settings s = parse(argc, argv);
  if (s.command == "make") {
    if (!write_log(s.file.c_str(), s.seed, s.lines)) fail(s.file + ": " + std::strerror(errno));
    return 0;
  }
  matcher pattern(s.pattern);
  if (!pattern.error().empty()) fail("the pattern: " + pattern.error());
  log_file log(s.file.c_str(), s.block_lines);
  if (!log.error().empty()) fail(s.file + ": " + log.error());
  return s.command == "check" ? check_command(log, pattern, s) : search_command(log, pattern, s);
}

// Destructors of C++ thread_local and static objects that own memory, and objects that die in another thread than they were
// born in. Ends with status 0 when every destructor has run.
//
// SPDX-License-Identifier: MIT
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {
std::atomic<int> born{0}, died{0};

struct Owner {
  std::vector<std::string> text;
  Owner() {
    born++;
    for (int i = 0; i < 50; i++) text.emplace_back(static_cast<size_t>(i) * 37 + 1, 'x');
  }
  ~Owner() {
    text.emplace_back(1000, 'y'); // allocates in a thread that is ending
    bool whole = text.back().size() == 1000 && text[10] == std::string(371, 'x');
    text.clear();
    if (whole) died++;
  }
};

thread_local Owner local;
thread_local std::unique_ptr<Owner> second;

struct AtExit {
  std::string kept = std::string(5000, 'z');
  ~AtExit() {
    if (born == died && kept[4999] == 'z') return;
    std::fprintf(stderr, "FAIL local: %d owners born, %d died whole\n", born.load(), died.load());
    std::_Exit(1);
  }
} at_exit;

void work() {
  local.text.emplace_back("touch");
  second = std::make_unique<Owner>();
}
} // namespace

int main() {
  for (int round = 0; round < 200; round++) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) threads.emplace_back(work);
    for (auto &thread : threads) thread.join();
  }
  work(); // main's own locals die in exit, before the static object checks
  std::printf("local: ok\n");
}

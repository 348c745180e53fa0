// Templates for the compiler to chew on; -DDEEP makes it a long meal.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#ifdef DEEP
#include <regex>
#endif
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#ifdef DEEP
enum { DEPTH = 60 };
#else
enum { DEPTH = 6 };
#endif

template <int N> struct Tower {
  using Below = Tower<N - 1>;
  std::tuple<std::map<int, std::vector<std::string>>, std::unique_ptr<Below>> parts;
  long sum() const { return N + (std::get<1>(parts) ? std::get<1>(parts)->sum() : 0); }
  Tower() { std::get<1>(parts) = std::make_unique<Below>(); }
};
template <> struct Tower<0> {
  long sum() const { return 1; }
};

int main() {
  std::variant<int, std::string, std::vector<double>> any = std::string("9 lives, 3 wishes");
  std::unordered_map<std::string, std::function<long(long)>> steps;
  for (long i = 0; i < 9; i++) steps["s" + std::to_string(i)] = [i](long x) { return x * 31 + i; };
  long value = Tower<DEPTH>().sum();
  std::vector<std::string> names;
  for (auto &step : steps) names.push_back(step.first);
  std::sort(names.begin(), names.end());
  for (auto &name : names) value = steps[name](value) % 1000003;
#ifdef DEEP
  any = std::regex_replace(std::get<std::string>(any), std::regex("[0-9]+ (\\w+)"), "no $1");
#endif
  std::cout << value << " " << std::get<std::string>(any) << "\n";
}

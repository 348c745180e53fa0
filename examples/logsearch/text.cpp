// The conversions. All run over ASCII in steps of 16, 8 and 4, and one by one where there is anything else. SPDX-License-Identifier: MIT
#include "text.hpp"

#include <cstdint>
#include <type_traits>

namespace logsearch {
namespace {

constexpr char16_t replacement = 0xfffd;

bool is_tail(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// One character that is not ASCII, from [at, end). cost: at least a byte is taken.
const unsigned char *decode_one(const unsigned char *at, const unsigned char *end, std::uint32_t &code) {
  static const std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char lead = *at++;
  int length = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  code = replacement;
  if (length == 0) return at;
  std::uint32_t value = lead & (0x7fu >> length);
  for (int i = 1; i < length; i++) {
    if (at + i - 1 == end || !is_tail(at[i - 1])) return at;
    value = value << 6 | (at[i - 1] & 0x3fu);
  }
  if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return at;
  code = value;
  return at + length - 1;
}

char16_t *put_units(std::uint32_t code, char16_t *to) {
  if (code < 0x10000) {
    *to++ = static_cast<char16_t>(code);
  } else {
    *to++ = static_cast<char16_t>(0xd7c0 + (code >> 10));
    *to++ = static_cast<char16_t>(0xdc00 + (code & 0x3ff));
  }
  return to;
}

// The character at `at`, which moves behind it.
std::uint32_t take_code(const char16_t *&at, const char16_t *end) {
  char16_t unit = *at++;
  if (unit < 0xd800 || unit >= 0xe000) return unit;
  if (unit >= 0xdc00 || at == end || (*at & 0xfc00) != 0xdc00) return replacement;
  return 0x10000 + ((unit & 0x3ffu) << 10) + (*at++ & 0x3ffu);
}

std::size_t bytes_of(std::uint32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

// Whether the next `step` bytes, or units, are ASCII. step: 4, 8 or 16.
template <std::size_t step, class Unit>
bool is_ascii(const Unit *at) {
  constexpr std::uint64_t high = sizeof(Unit) == 1 ? 0x8080808080808080u : 0xff80ff80ff80ff80u;
  std::uint64_t words[(step * sizeof(Unit) + 7) / 8] = {}, all = 0;
  std::memcpy(words, at, step * sizeof(Unit));
  for (std::uint64_t word : words) all |= word;
  return (all & high) == 0;
}

template <std::size_t step, class From, class To>
void copy_ascii(const From *from, To *to) {
  for (std::size_t i = 0; i < step; i++) to[i] = static_cast<To>(from[i]);
}

// Takes ASCII from [at, end) in steps as long as there is a step of it: take(at, step), with step as a constant.
template <class Unit, class Take>
const Unit *each_ascii(const Unit *at, const Unit *end, Take take) {
  for (; end - at >= 16 && is_ascii<16>(at); at += 16) take(at, std::integral_constant<std::size_t, 16>());
  if (end - at >= 8 && is_ascii<8>(at)) take(at, std::integral_constant<std::size_t, 8>()), at += 8;
  if (end - at >= 4 && is_ascii<4>(at)) take(at, std::integral_constant<std::size_t, 4>()), at += 4;
  return at;
}

}  // namespace

std::size_t decode(std::string_view text, char16_t *to) {
  const auto *at = reinterpret_cast<const unsigned char *>(text.data()), *end = at + text.size();
  const char16_t *start = to;
  while (at < end) {
    at = each_ascii(at, end, [&to](const unsigned char *from, auto step) {
      copy_ascii<step>(from, to);
      to += step;
    });
    if (at == end) break;
    std::uint32_t code = *at;
    at = code < 0x80 ? at + 1 : decode_one(at, end, code);
    to = put_units(code, to);
  }
  return static_cast<std::size_t>(to - start);
}

std::size_t encoded_bytes(std::u16string_view text) {
  const char16_t *at = text.data(), *end = at + text.size();
  std::size_t bytes = 0;
  while (at < end) {
    at = each_ascii(at, end, [&bytes](const char16_t *, auto step) { bytes += step; });
    if (at < end) bytes += bytes_of(take_code(at, end));
  }
  return bytes;
}

void encode(std::u16string_view text, char *to) {
  const char16_t *at = text.data(), *end = at + text.size();
  while (at < end) {
    at = each_ascii(at, end, [&to](const char16_t *from, auto step) {
      copy_ascii<step>(from, to);
      to += step;
    });
    if (at == end) break;
    std::uint32_t code = take_code(at, end);
    std::size_t bytes = bytes_of(code);
    for (std::size_t k = bytes; k-- > 1; code >>= 6) to[k] = static_cast<char>(0x80 | (code & 0x3f));
    to[0] = static_cast<char>(bytes == 1 ? code : code | (0xf00u >> bytes & 0xf0u));
    to += bytes;
  }
}

}  // namespace logsearch

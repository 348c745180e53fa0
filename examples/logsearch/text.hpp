// UTF-8 to UTF-16 and back, as a viewer does it: what it shows is UTF-16, what the matcher reads is UTF-8 that is known to be valid.
//
// Two ways to hold the text, with the same two functions: plain_strings, whose memory comes from any C++ allocator, and qt_strings, where
// Qt converts and allocates. SPDX-License-Identifier: MIT
#ifndef LOGSEARCH_TEXT_HPP
#define LOGSEARCH_TEXT_HPP

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#if LOGSEARCH_QT
#include <QByteArray>
#include <QString>
#endif

namespace logsearch {

// Decode text to at most text.size() units. What is no UTF-8 becomes U+FFFD. returns: the units.
std::size_t decode(std::string_view text, char16_t *to);

// The bytes that encode() will write, and writing them. Half a pair becomes U+FFFD.
std::size_t encoded_bytes(std::u16string_view text);
void encode(std::u16string_view text, char *to);

// Room for `size` units, whose content is undefined: std::basic_string would clear it first.
template <class Unit, class Allocator>
class buffer {
 public:
  template <class Fill>
  buffer(std::size_t size, const Allocator &allocator, Fill fill)
      : size_(size), room_(size), allocator_(allocator), data_(allocator_.allocate(room_)) {
    fill(*this);
  }
  buffer(const buffer &) = delete;
  buffer &operator=(const buffer &) = delete;
  ~buffer() { allocator_.deallocate(data_, room_); }

  Unit *data() { return data_; }
  void shrink(std::size_t size) { size_ = size; }
  std::basic_string_view<Unit> view() const { return {data_, size_}; }

 private:
  std::size_t size_, room_;
  typename std::allocator_traits<Allocator>::template rebind_alloc<Unit> allocator_;
  Unit *data_;
};

template <class Allocator>
struct plain_strings {
  Allocator allocator;

  using units = buffer<char16_t, Allocator>;
  using bytes = buffer<char, Allocator>;

  units decode(std::string_view text) const {
    return units(text.size(), allocator, [text](units &out) { out.shrink(logsearch::decode(text, out.data())); });
  }
  bytes encode(const units &text) const {
    return bytes(encoded_bytes(text.view()), allocator, [&text](bytes &out) { logsearch::encode(text.view(), out.data()); });
  }
  static std::string_view view(const bytes &text) { return text.view(); }
};

#if LOGSEARCH_QT
struct qt_strings {
  QString decode(std::string_view text) const { return QString::fromUtf8(text.data(), static_cast<int>(text.size())); }
  QByteArray encode(const QString &text) const { return text.toUtf8(); }
  static std::string_view view(const QByteArray &text) { return {text.constData(), static_cast<std::size_t>(text.size())}; }
};
#endif

}  // namespace logsearch
#endif

#ifndef DSCKPT_BASE_ORDINAL_H_
#define DSCKPT_BASE_ORDINAL_H_

// Positions of different things as different types, so that none is taken for another.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dsckpt {

/// The position of one kind of thing: `using TensorOrdinal = Ordinal<struct TensorOrdinalTag>;`
template <typename Tag>
class Ordinal {
 public:
  constexpr Ordinal() = default;
  constexpr explicit Ordinal(size_t value) : value_(static_cast<uint32_t>(value)) {}
  constexpr uint32_t value() const { return value_; }
  constexpr Ordinal& operator++() {
    ++value_;
    return *this;
  }
  constexpr auto operator<=>(const Ordinal&) const = default;

 private:
  uint32_t value_ = 0;
};

/// An ordinal, or none, in no more memory than `Rep`.
template <typename Tag, typename Rep = uint32_t>
class OptionalOrdinal {
 public:
  constexpr OptionalOrdinal() = default;
  /// REQUIRES: value + 1 fits in Rep.
  constexpr explicit OptionalOrdinal(size_t value) : plus_one_(static_cast<Rep>(value + 1)) {}
  constexpr explicit operator bool() const { return plus_one_ != 0; }
  /// REQUIRES: there is one.
  constexpr size_t value() const { return size_t{plus_one_} - 1; }

 private:
  Rep plus_one_ = 0;
};

/// A vector whose positions are of one kind.
template <typename Index, typename T>
class OrdinalVector : public std::vector<T> {
 public:
  using Base = std::vector<T>;
  using Base::Base;
  typename Base::reference operator[](Index i) { return Base::operator[](i.value()); }
  typename Base::const_reference operator[](Index i) const { return Base::operator[](i.value()); }
};

/// The first `count` ordinals, for `for (const TensorOrdinal i : Ordinals<TensorOrdinal>(count))`.
template <typename Index>
class Ordinals {
 public:
  class Iterator {
   public:
    explicit Iterator(Index at) : at_(at) {}
    Index operator*() const { return at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Index at_;
  };
  explicit Ordinals(size_t count) : end_(Index(count)) {}
  Iterator begin() const { return Iterator(Index(0)); }
  Iterator end() const { return Iterator(end_); }

 private:
  Index end_;
};

/// All positions of a vector.
template <typename Index, typename T>
Ordinals<Index> PositionsOf(const OrdinalVector<Index, T>& vector) {
  return Ordinals<Index>(vector.size());
}

}  // namespace dsckpt

#endif  // DSCKPT_BASE_ORDINAL_H_

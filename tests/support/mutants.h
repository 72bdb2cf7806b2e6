#ifndef DSCKPT_TESTS_SUPPORT_MUTANTS_H_
#define DSCKPT_TESTS_SUPPORT_MUTANTS_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "format/columns/columns.h"
#include "format/manifest/manifest.h"

/// Columns of an index or a manifest with one thing changed: an element, or how many there are.
/// Encoded again, such a mutant has right sums, so that nothing but the rules stands between it and
/// a reader.
namespace mutants {

using dsckpt::format::IndexColumns;
using dsckpt::format::ManifestColumns;
using dsckpt::format::NameColumns;
using dsckpt::format::PayloadColumns;
using dsckpt::format::PieceColumns;
using dsckpt::format::TreeColumns;

template <typename V>
void Visit(NameColumns& c, const std::string& name, V&& visit) {
  visit(name + ".bytes", c.bytes);
  visit(name + ".ends", c.ends);
}

template <typename V>
void Visit(PieceColumns& c, V&& visit) {
  Visit(c.logical_names, "logical_names", visit);
  visit("logical_dim_end", c.logical_dim_end);
  visit("logical_dims", c.logical_dims);
  visit("tensor", c.tensor);
  visit("logical", c.logical);
  visit("element_offset", c.element_offset);
  visit("form", c.form);
  visit("bounds_end", c.bounds_end);
  visit("bounds", c.bounds);
  visit("replica_group", c.replica_group);
}

template <typename V>
void Visit(PayloadColumns& c, const std::string& name, V&& visit) {
  visit(name + ".offset", c.offset);
  visit(name + ".raw_bytes", c.raw_bytes);
  visit(name + ".stored_bytes", c.stored_bytes);
  visit(name + ".encoding", c.encoding);
  visit(name + ".chunk_end", c.chunk_end);
  visit(name + ".stored_chunk_end", c.stored_chunk_end);
}

template <typename V>
void Visit(TreeColumns& c, const std::string& name, V&& visit) {
  visit(name + ".nodes", c.nodes);
  visit(name + ".heap", c.heap);
  visit(name + ".tags", c.tags);
}

template <typename V>
void Visit(ManifestColumns& c, V&& visit) {
  visit("attempt", c.attempt);
  visit("step", c.step);
  visit("ranks", c.ranks);
  visit("shards.names", c.shard_names);
  visit("shards.rank", c.shard_rank);
  visit("shards.file_bytes", c.shard_file_bytes);
  visit("shards.index_bytes", c.shard_index_bytes);
  visit("shards.index_xxh3_64", c.shard_index_xxh3_64);
  visit("dtypes", c.dtypes);
  visit("logical_dtype", c.logical_dtype);
  Visit(c.pieces, visit);
  visit("piece_shard", c.piece_shard);
}

template <typename V>
void Visit(IndexColumns& c, V&& visit) {
  visit("dtypes", c.dtypes);
  visit("media_types", c.media_types);
  Visit(c.tensor_names, "tensor_names", visit);
  Visit(c.alias_names, "alias_names", visit);
  Visit(c.object_names, "object_names", visit);
  visit("tensor_dtype", c.tensor_dtype);
  visit("dim_end", c.dim_end);
  visit("dims", c.dims);
  Visit(c.tensors, "tensors", visit);
  Visit(c.objects, "objects", visit);
  visit("alias_target", c.alias_target);
  visit("object_media_type", c.object_media_type);
  visit("chunk_sums", c.chunk_sums);
  visit("stored_chunks", c.stored_chunks);
  Visit(c.pieces, visit);
  Visit(c.tree, "tree", visit);
  Visit(c.attributes, "attributes", visit);
}

/// Applies change `k` to a number; false when there are no more.
template <typename T>
bool ChangeNumber(T& value, size_t k) {
  using U = std::make_unsigned_t<T>;
  const auto old = static_cast<U>(value);
  const U top = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  const U to[] = {0,
                  1,
                  static_cast<U>(old + 1),
                  static_cast<U>(old - 1),
                  static_cast<U>(old ^ top),
                  static_cast<U>(~U{0}),
                  static_cast<U>(top - 1)};
  if (k >= std::size(to)) return false;
  value = static_cast<T>(to[k]);
  return true;
}

inline bool ChangeBytes(void* bytes, size_t size, size_t k) {
  if (k >= 3 * size) return false;
  auto& byte = static_cast<unsigned char*>(bytes)[k / 3];
  byte = k % 3 == 0 ? byte ^ 1 : k % 3 == 1 ? byte ^ 0x80 : 0xFF;
  return true;
}

inline bool Change(int64_t& value, size_t k) { return ChangeNumber(value, k); }
inline bool Change(uint32_t& value, size_t k) { return ChangeNumber(value, k); }

inline bool Change(std::string& text, size_t k) {
  if (k == 0) text += 'x';
  if (k == 1 && !text.empty()) text.pop_back();
  if (k == 2) text.clear();
  if (k == 3) text.assign(300, 'n');
  return k < 4 || ChangeBytes(text.data(), text.size(), k - 4);
}

template <typename T>
bool Change(std::vector<T>& column, size_t k) {
  if (k == 0) {
    column.push_back(column.empty() ? T{} : column.back());
    return true;
  }
  if (k == 1 && !column.empty()) column.pop_back();
  if (k == 2) column.clear();
  if (k == 3 && column.size() > 1) std::swap(column.front(), column.back());
  if (k < 4) return true;
  k -= 4;
  for (T& element : column) {
    size_t changes = 0;
    if constexpr (std::is_integral_v<T>) {
      changes = 7;
      if (k < changes) return ChangeNumber(element, k);
    } else if constexpr (std::is_same_v<T, std::string>) {
      changes = 4 + 3 * element.size();
      if (k < changes) return Change(element, k);
    } else {
      changes = 3 * sizeof(T);
      if (k < changes) return ChangeBytes(&element, sizeof(T), k);
    }
    k -= changes;
  }
  return false;
}

/// Calls use(name, mutant) with every `stride`-th mutant of `columns`, from the first on, where the
/// name is that of the column changed. Returns how many.
template <typename Columns, typename Use>
size_t ForEach(const Columns& columns, size_t stride, Use&& use) {
  size_t all = 0, used = 0;
  for (size_t column = 0, last = 1; column < last; ++column) {
    for (size_t k = 0;; ++k) {
      Columns mutant = columns;
      std::string name;
      size_t position = 0;
      bool changed = false;
      Visit(mutant, [&](const std::string& of, auto& values) {
        if (position++ != column) return;
        name = of;
        changed = Change(values, k);
      });
      last = position;
      if (!changed) break;
      if (all++ % stride != 0) continue;
      use(name + " " + std::to_string(k), mutant);
      ++used;
    }
  }
  return used;
}

/// One to four changes anywhere: what one check lets pass may be what the next one trips over.
template <typename Columns>
Columns Several(Columns columns, std::mt19937& random) {
  size_t count = 0;
  Visit(columns, [&](const std::string&, auto&) { ++count; });
  for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
    const size_t column = random() % count;
    // Lengths as often as the first elements, and these as often as any.
    constexpr size_t kLimits[] = {4, 40, 300};
    const size_t k = random() % kLimits[random() % 3];
    size_t position = 0;
    Visit(columns, [&](const std::string&, auto& values) {
      if (position++ == column) (void)Change(values, k);
    });
  }
  return columns;
}

}  // namespace mutants

#endif  // DSCKPT_TESTS_SUPPORT_MUTANTS_H_

#include "format/columns/name_table.h"

#include <limits>
#include <span>

#include "format/checksum.h"

namespace dsckpt::format {
namespace {

constexpr size_t kFirstSlots = 64;

}  // namespace

bool NameTable::HasRoom(std::string_view name) const {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  return names_.bytes.size() + name.size() <= kMax && names_.ends.size() < kMax - 1;
}

size_t NameTable::Slot(std::string_view name, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot] != 0) {
    const uint32_t number = slots_[slot] - 1;
    if (hashes_[number] == hash && names_[number] == name) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void NameTable::Grow() {
  slots_.assign(slots_.empty() ? kFirstSlots : 2 * slots_.size(), 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t number = 0; number < names_.size(); ++number) {
    size_t slot = hashes_[number] & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = number + 1;
  }
}

uint32_t NameTable::Add(std::string_view name) {
  if (2 * size_t{names_.size()} >= slots_.size()) Grow();
  const uint64_t hash = Hash64(std::as_bytes(std::span(name)));
  uint32_t& slot = slots_[Slot(name, hash)];
  if (slot == 0) {
    names_.Append(name);
    hashes_.push_back(hash);
    slot = names_.size();
  }
  return slot - 1;
}

}  // namespace dsckpt::format

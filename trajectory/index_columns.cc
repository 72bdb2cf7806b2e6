#include "trajectory/index_columns.h"

#include <algorithm>

namespace dsckpt::trajectory {

void Column::Set(uint32_t name, const Cell& cell) {
  if (name >= forms_.size()) {
    forms_.resize(name + 1, kAbsent);
    kinds_.resize(name + 1);
    digests_.resize(name + 1);
  }
  forms_[name] = cell.form;
  kinds_[name] = cell.kind;
  digests_[name] = cell.digest;
  if (!cell.statistics) return;
  if (name >= statistics_.size()) statistics_.resize(name + 1);
  statistics_[name] = cell.statistics;
}

std::optional<Cell> Column::Find(uint32_t name) const {
  if (name >= forms_.size() || forms_[name] == kAbsent) return std::nullopt;
  Cell cell{forms_[name], kinds_[name], digests_[name], std::nullopt};
  if (name < statistics_.size()) cell.statistics = statistics_[name];
  return cell;
}

void Column::Renumber(const std::vector<uint32_t>& number_of) {
  const Column old = std::move(*this);
  *this = {};
  // Once in full, so that each array is allocated once.
  forms_.resize(number_of.size(), kAbsent);
  kinds_.resize(number_of.size());
  digests_.resize(number_of.size());
  if (!old.statistics_.empty()) statistics_.resize(number_of.size());
  for (uint32_t i = 0; i < number_of.size(); ++i) {
    if (const auto cell = old.Find(i)) Set(number_of[i], *cell);
  }
}

uint32_t Tables::NameNumber(std::string_view name) {
  if (const auto known = Find(name)) return *known;
  const auto [entry, added] = number_of_name_.emplace(name, name_count());
  names_.push_back(&entry->first);
  return entry->second;
}

uint32_t Tables::FormNumber(const DTypeInfo& dtype, std::vector<int64_t> shape, uint64_t bytes) {
  FormKey key{static_cast<uint16_t>(dtype.code), shape};
  const auto next = static_cast<uint32_t>(forms_.size());
  const auto [entry, added] = number_of_form_.try_emplace(
      std::move(key), std::pair(next, Form{dtype, std::move(shape), bytes}));
  if (added) forms_.push_back(&entry->second.second);
  return entry->second.first;
}

std::vector<uint32_t> Tables::Sort() {
  std::vector<uint32_t> number_of(names_.size());
  uint32_t next = 0;
  for (auto& [name, number] : number_of_name_) {
    number_of[number] = next;
    names_[next] = &name;
    number = next++;
  }
  return number_of;
}

std::optional<uint32_t> Tables::Find(std::string_view name) const {
  const auto found = number_of_name_.find(name);
  return found == number_of_name_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace dsckpt::trajectory

#include "run/save_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace dsckpt::run {
namespace {

std::optional<size_t> FindName(std::span<const SaveRecord> saves,
                               const std::optional<std::string>& name) {
  for (size_t i = 0; name && i < saves.size(); ++i) {
    if (saves[i].name == *name) return i;
  }
  return {};
}

}  // namespace

bool SavedBefore(const SaveRecord& a, const SaveRecord& b) {
  return std::tie(a.serial, a.step, a.name) < std::tie(b.serial, b.step, b.name);
}

std::vector<size_t> ResumeOrder(std::span<const SaveRecord> saves) {
  std::vector<size_t> order(saves.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool known = saves[a].step.has_value();
    if (known != saves[b].step.has_value()) return known;
    return SavedBefore(saves[b], saves[a]);
  });
  return order;
}

std::vector<bool> FindAbandoned(std::span<const SaveRecord> saves,
                                const std::optional<std::string>& latest) {
  std::vector<bool> abandoned(saves.size(), false);
  // What comes next on the line has at most this serial, and a step below the other.
  uint64_t newest = std::numeric_limits<uint64_t>::max();
  std::optional<int64_t> lowest;
  if (const auto named = FindName(saves, latest); named && saves[*named].serial != 0) {
    newest = saves[*named].serial;
  }
  for (size_t end = saves.size(); end > 0 && saves[end - 1].serial != 0;) {
    // Copies of one checkpoint share a serial: none of them was saved after another.
    size_t begin = end;
    while (begin > 0 && saves[begin - 1].serial == saves[end - 1].serial) --begin;
    uint64_t next_newest = newest;
    std::optional<int64_t> next_lowest = lowest;
    for (size_t i = begin; i < end; ++i) {
      const SaveRecord& save = saves[i];
      abandoned[i] = save.serial > newest || (lowest && save.step && *lowest <= *save.step);
      if (abandoned[i]) continue;
      if (save.parent != 0) next_newest = std::min(next_newest, save.parent);
      if (save.step) next_lowest = next_lowest ? std::min(*next_lowest, *save.step) : *save.step;
    }
    newest = next_newest;
    lowest = next_lowest;
    end = begin;
  }
  return abandoned;
}

}  // namespace dsckpt::run

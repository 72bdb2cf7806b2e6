#include "run/save_order.h"

#include <algorithm>
#include <limits>
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

std::optional<size_t> FindLatest(std::span<const SaveRecord> saves,
                                 const std::optional<std::string>& latest) {
  if (const auto named = FindName(saves, latest)) return named;
  for (size_t i = saves.size(); i-- > 0;) {
    if (saves[i].step) return i;
  }
  if (saves.empty()) return {};
  return saves.size() - 1;
}

std::vector<bool> FindAbandoned(std::span<const SaveRecord> saves,
                                const std::optional<std::string>& latest) {
  uint64_t last = std::numeric_limits<uint64_t>::max();
  if (const auto named = FindName(saves, latest); named && saves[*named].serial != 0) {
    last = saves[*named].serial;
  }
  std::vector<bool> abandoned(saves.size(), false);
  // From the newest on: the lowest step of what was saved later, up to what `latest` names.
  std::optional<int64_t> lowest;
  uint64_t lowest_serial = 0;
  std::optional<int64_t> lowest_of_serial;
  for (size_t i = saves.size(); i-- > 0;) {
    const SaveRecord& save = saves[i];
    if (save.serial == 0) break;
    if (save.serial != lowest_serial) {
      // Copies of one checkpoint share a serial: none of them was saved after another.
      if (lowest_of_serial)
        lowest = lowest ? std::min(*lowest, *lowest_of_serial) : lowest_of_serial;
      lowest_of_serial.reset();
      lowest_serial = save.serial;
    }
    if (save.serial > last) {
      abandoned[i] = true;
      continue;
    }
    abandoned[i] = lowest && save.step && *lowest <= *save.step;
    if (save.step) {
      lowest_of_serial = lowest_of_serial ? std::min(*lowest_of_serial, *save.step) : *save.step;
    }
  }
  return abandoned;
}

}  // namespace dsckpt::run

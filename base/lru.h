#ifndef DSCKPT_BASE_LRU_H_
#define DSCKPT_BASE_LRU_H_

// A map of bounded size that forgets what was used longest ago.

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace dsckpt {

/// Holds at most `capacity` values by key and drops the one that was used longest ago. Not
/// thread-safe: the owner's mutex guards it.
template <typename Key, typename Value>
class LruCache {
 public:
  /// REQUIRES: `capacity` is not 0.
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  /// The value of `key`, which counts as used now, or null. Valid until the next Put() or Erase().
  Value* Find(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->second;
  }
  /// Whether `key` has a value; does not count as a use.
  bool Has(const Key& key) const { return by_key_.count(key) != 0; }
  /// Keeps `value` unless `key` has one already, which then counts as used.
  void Put(const Key& key, Value value) {
    if (Find(key) != nullptr) return;
    order_.emplace_front(key, std::move(value));
    by_key_[key] = order_.begin();
    if (order_.size() <= capacity_) return;
    by_key_.erase(order_.back().first);
    order_.pop_back();
  }
  /// Drops the value of `key`, if it has one.
  void Erase(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return;
    order_.erase(found->second);
    by_key_.erase(found);
  }
  size_t size() const { return order_.size(); }

 private:
  using Order = std::list<std::pair<Key, Value>>;

  const size_t capacity_;
  Order order_;  // The last used first.
  std::unordered_map<Key, typename Order::iterator> by_key_;
};

}  // namespace dsckpt

#endif  // DSCKPT_BASE_LRU_H_

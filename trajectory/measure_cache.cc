// MeasureCache: maps from content to measures, and the file that keeps them.

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "dsckpt/file.h"
#include "dsckpt/trajectory_measures.h"
#include "io/append_file.h"
#include "io/input_file.h"
#include "io/path.h"
#include "trajectory/measure_line.h"

namespace dsckpt {

namespace {

constexpr size_t kCacheBlock = 1 << 20;

/// A digest, as it is printed, is kept as its number; of any other text a digest is kept.
Hash128 CompactKey(const MeasureCache::Key& key) {
  const auto digest = trajectory::ParseMeasureKey(key);
  return digest ? *digest : TreeDigest({{key, {}}});
}

template <size_t kCount>
using CompactKeys = std::array<Hash128, kCount>;

struct HashKeys {
  template <size_t kCount>
  size_t operator()(const CompactKeys<kCount>& keys) const noexcept {
    // They are digests: each bit of them is as good as a hash.
    size_t hash = 0;
    for (const Hash128& key : keys) hash = hash * 31 + key.low;
    return hash;
  }
};

/// What is known of one kind, and the file in which each stands; 0: in none.
template <size_t kCount, typename Measure>
class MeasureMap {
 public:
  void Add(const CompactKeys<kCount>& keys, const Measure& measure, uint32_t file) {
    known_.try_emplace(keys, Entry{measure, file});
  }

  const Measure* Find(const CompactKeys<kCount>& keys) const {
    const auto found = known_.find(keys);
    return found == known_.end() ? nullptr : &found->second.measure;
  }

  size_t size() const { return known_.size(); }

  /// Those that do not stand in `file`, in an order that does not depend on how they came here.
  auto Missing(uint32_t file) {
    std::vector<std::pair<const CompactKeys<kCount>, Entry>*> missing;
    for (auto& each : known_) {
      if (each.second.file != file) missing.push_back(&each);
    }
    std::ranges::sort(missing, [](const auto* a, const auto* b) {
      return std::ranges::lexicographical_compare(
          a->first, b->first, {}, [](const Hash128& key) { return std::pair(key.high, key.low); },
          [](const Hash128& key) { return std::pair(key.high, key.low); });
    });
    return missing;
  }

 private:
  struct Entry {
    Measure measure;
    uint32_t file;
  };
  std::unordered_map<CompactKeys<kCount>, Entry, HashKeys> known_;
};

/// The lines of a file, one after the other.
class LineReader {
 public:
  explicit LineReader(const io::InputFile& file) : file_(file) {}

  /// False behind the last one. kCorrupt: it is too long.
  Result<bool> Next(std::string_view& line) {
    ++number_;
    for (;;) {
      const std::string_view rest = std::string_view(buffer_).substr(begin_);
      const size_t end = rest.find('\n');
      if (std::min(end, rest.size()) > trajectory::kMaxMeasureLine) {
        return Status(StatusCode::kCorrupt,
                      "expected a line of measures of at most 64 KiB, found a longer one");
      }
      if (end != std::string_view::npos) {
        line = rest.substr(0, end);
        begin_ += end + 1;
        return true;
      }
      if (offset_ == file_.size()) {
        line = rest;
        begin_ = buffer_.size();
        return !rest.empty();
      }
      DSCKPT_RETURN_IF_ERROR(Fill());
    }
  }

  uint64_t number() const { return number_; }

 private:
  Status Fill() {
    buffer_.erase(0, begin_);
    begin_ = 0;
    const size_t held = buffer_.size();
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(kCacheBlock, file_.size() - offset_));
    buffer_.resize(held + bytes);
    DSCKPT_RETURN_IF_ERROR(
        file_.ReadAt(offset_, std::as_writable_bytes(std::span(buffer_).subspan(held))));
    offset_ += bytes;
    return {};
  }

  const io::InputFile& file_;
  std::string buffer_;
  size_t begin_ = 0;
  uint64_t offset_ = 0, number_ = 0;
};

Status BadCache(const std::string& path, uint64_t line, const Status& why) {
  return Status(why.code(), "'" + path + "', line " + std::to_string(line) + ": " + why.message() +
                                "; delete the line, or give another file")
      .WithPath(path);
}

}  // namespace

struct MeasureCache::Impl {
  MeasureMap<1, Moments> moments;
  MeasureMap<2, TensorUpdate> updates;
  MeasureMap<3, UpdateTurn> turns;
  /// From 1.
  std::map<std::string, uint32_t> files;

  uint32_t FileNumber(const std::string& path) {
    return files.try_emplace(path, static_cast<uint32_t>(files.size() + 1)).first->second;
  }

  void Add(const trajectory::MeasureLine& line, uint32_t file) {
    const auto& of = line.of;
    if (const auto* m = std::get_if<Moments>(&line.measure)) moments.Add({of[0]}, *m, file);
    if (const auto* u = std::get_if<TensorUpdate>(&line.measure)) {
      updates.Add({of[0], of[1]}, *u, file);
    }
    if (const auto* t = std::get_if<UpdateTurn>(&line.measure)) turns.Add(of, *t, file);
  }

  template <typename Map>
  static Status Append(io::AppendFile& out, Map& map, uint32_t file) {
    const auto missing = map.Missing(file);
    std::string lines;
    for (size_t i = 0; i < missing.size(); ++i) {
      trajectory::AppendMeasureLine(lines, missing[i]->first, missing[i]->second.measure);
      if (lines.size() < kCacheBlock && i + 1 < missing.size()) continue;
      DSCKPT_RETURN_IF_ERROR(out.Write(lines));
      lines.clear();
    }
    return {};
  }

  template <typename Map>
  static void StandsIn(Map& map, uint32_t file) {
    for (auto* each : map.Missing(file)) each->second.file = file;
  }
};

MeasureCache::MeasureCache() : impl_(std::make_unique<Impl>()) {}
MeasureCache::~MeasureCache() = default;
MeasureCache::MeasureCache(MeasureCache&&) noexcept = default;
MeasureCache& MeasureCache::operator=(MeasureCache&&) noexcept = default;

Status MeasureCache::Load(const std::string& path) {
  const auto file = io::InputFile::Open(path);
  if (file.status().code() == StatusCode::kNotFound) return {};
  DSCKPT_RETURN_IF_ERROR(file.status());
  DSCKPT_ASSIGN_OR_RETURN(const std::string absolute, io::AbsolutePath(path));
  const uint32_t number = impl_->FileNumber(absolute);
  LineReader lines(**file);
  std::string_view text;
  for (;;) {
    const auto more = lines.Next(text);
    if (!more.ok()) return BadCache(path, lines.number(), more.status());
    if (!*more) return {};
    const auto line = trajectory::ParseMeasureLine(text);
    if (line.ok()) {
      impl_->Add(*line, number);
    } else if (!trajectory::IsCutMeasureLine(text)) {
      return BadCache(path, lines.number(), line.status());
    }
  }
}

Status MeasureCache::Save(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(const std::string absolute, io::AbsolutePath(path));
  const uint32_t file = impl_->FileNumber(absolute);
  DSCKPT_ASSIGN_OR_RETURN(const auto out, io::AppendFile::Open(path));
  DSCKPT_RETURN_IF_ERROR(Impl::Append(*out, impl_->moments, file));
  DSCKPT_RETURN_IF_ERROR(Impl::Append(*out, impl_->updates, file));
  DSCKPT_RETURN_IF_ERROR(Impl::Append(*out, impl_->turns, file));
  DSCKPT_RETURN_IF_ERROR(out->Finish());
  Impl::StandsIn(impl_->moments, file);
  Impl::StandsIn(impl_->updates, file);
  Impl::StandsIn(impl_->turns, file);
  return {};
}

const MeasureCache::Moments* MeasureCache::FindMoments(const Key& key) const {
  return key.empty() ? nullptr : impl_->moments.Find({CompactKey(key)});
}

const TensorUpdate* MeasureCache::FindUpdate(const Key& before, const Key& after) const {
  if (before.empty() || after.empty()) return nullptr;
  return impl_->updates.Find({CompactKey(before), CompactKey(after)});
}

const UpdateTurn* MeasureCache::FindTurn(const Key& first, const Key& second,
                                         const Key& third) const {
  if (first.empty() || second.empty() || third.empty()) return nullptr;
  return impl_->turns.Find({CompactKey(first), CompactKey(second), CompactKey(third)});
}

void MeasureCache::AddMoments(const Key& key, const Moments& moments) {
  if (!key.empty()) impl_->moments.Add({CompactKey(key)}, moments, 0);
}

void MeasureCache::AddUpdate(const Key& before, const Key& after, const TensorUpdate& update) {
  if (before.empty() || after.empty()) return;
  impl_->updates.Add({CompactKey(before), CompactKey(after)}, update, 0);
}

void MeasureCache::AddTurn(const Key& first, const Key& second, const Key& third,
                           const UpdateTurn& turn) {
  if (first.empty() || second.empty() || third.empty()) return;
  impl_->turns.Add({CompactKey(first), CompactKey(second), CompactKey(third)}, turn, 0);
}

size_t MeasureCache::size() const {
  return impl_->moments.size() + impl_->updates.size() + impl_->turns.size();
}

}  // namespace dsckpt

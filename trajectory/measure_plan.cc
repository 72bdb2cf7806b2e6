#include "trajectory/measure_plan.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "format/checksum.h"

namespace dsckpt::trajectory {

namespace {

std::string Hex(const Hash128& hash) { return Hex64(hash.high) + Hex64(hash.low); }

Hash128 HashText(const std::string& text) {
  return format::HashChunk(std::as_bytes(std::span(text)));
}

/// Its path, size and time of change.
std::string FileText(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  std::error_code unknown;
  const auto whole = std::filesystem::canonical(path, unknown);
  if (unknown) return {};
  return whole.string() + '\n' + std::to_string(found.st_size) + '\n' +
         std::to_string(found.st_mtim.tv_sec) + '.' + std::to_string(found.st_mtim.tv_nsec) + '\n';
}

std::string FilesOf(const Trajectory& run, uint32_t t) {
  const auto checkpoint = run.OpenCheckpoint(t);
  if (!checkpoint.ok()) return {};
  std::string all;
  for (uint32_t shard = 0; shard < checkpoint->shard_count(); ++shard) {
    const auto file = checkpoint->OpenShard(shard);
    const std::string text = file.ok() ? FileText(file->path()) : std::string();
    if (text.empty()) return {};
    all += text;
  }
  return all;
}

bool SameForm(const TrajectoryForm& a, const TrajectoryForm& b) {
  return a.dtype.code == b.dtype.code && std::ranges::equal(a.shape, b.shape);
}

/// Goes through the visits of one tensor and marks what is missing.
class Planner {
 public:
  Planner(TensorPlan& plan, const MeasureOptions& options)
      : plan_(plan), options_(options), cache_(options.cache) {}

  void Run() {
    for (uint32_t v = 0; v < plan_.visits.size(); ++v) Link(v);
    for (Visit& visit : plan_.visits) {
      if (!visit.hidden) Mark(visit);
    }
  }

 private:
  Visit& At(uint32_t v) { return plan_.visits[v]; }
  bool SameContent(uint32_t a, uint32_t b) {
    return At(a).content == At(b).content || (!At(a).key.empty() && At(a).key == At(b).key);
  }

  /// What it is compared with.
  void Link(uint32_t v) {
    Visit& visit = At(v);
    visit.content = visit.first = v;
    if (v > 0 && !At(v - 1).hidden && SameForm(At(v - 1).form, visit.form) && !visit.key.empty() &&
        At(v - 1).key == visit.key) {
      visit.content = At(v - 1).content;
    }
    const std::optional<uint32_t> previous = last_;
    if (!visit.hidden) last_ = v;
    if (previous && SameForm(At(*previous).form, visit.form)) visit.first = At(*previous).first;
    const std::optional<uint32_t> before = options_.against ? plan_.against : previous;
    if (!before || *before == v) return;
    visit.row.before = At(*before).checkpoint;
    if (!SameForm(At(*before).form, visit.form)) return;
    visit.before = before;
    if (!options_.against) visit.two_before = At(*before).before;
  }

  void Mark(Visit& visit) {
    const auto v = static_cast<uint32_t>(&visit - plan_.visits.data());
    if (visit.content == v && !KnowsMoments(visit)) {
      visit.moments = true;
      Read({v});
    }
    if (visit.before && !SameContent(*visit.before, v) && !KnowsUpdate(visit)) {
      visit.update = true;
      Read({*visit.before, v});
    }
    if (Turns(visit, v) && !KnowsTurn(visit)) {
      visit.turn = true;
      Read({*visit.two_before, *visit.before, v});
    }
    const bool moved = visit.first != v && !SameContent(visit.first, v);
    if (!moved || visit.content != v || visit.before == visit.first) return;
    if (!KnowsDistance(visit)) {
      visit.distance = true;
      Read({visit.first, v});
    }
  }

  bool Turns(const Visit& visit, uint32_t v) {
    return visit.before && visit.two_before && !SameContent(*visit.before, v) &&
           !SameContent(*visit.two_before, *visit.before);
  }
  void Read(std::initializer_list<uint32_t> visits) {
    for (const uint32_t v : visits) At(At(v).content).read = true;
  }

  bool KnowsMoments(Visit& visit) {
    const auto* const found = cache_ == nullptr ? nullptr : cache_->FindMoments(visit.key);
    if (found == nullptr) return false;
    visit.row.moments = found->moments;
    visit.row.first_nan = found->first_nan;
    return true;
  }
  const TensorUpdate* FindUpdate(uint32_t before, const Visit& visit) {
    if (cache_ == nullptr || At(before).key.empty() || visit.key.empty()) return nullptr;
    return cache_->FindUpdate(At(before).key, visit.key);
  }
  bool KnowsUpdate(Visit& visit) {
    const TensorUpdate* const found = FindUpdate(*visit.before, visit);
    if (found != nullptr) visit.row.update = *found;
    return found != nullptr;
  }
  bool KnowsDistance(Visit& visit) {
    const TensorUpdate* const found = FindUpdate(visit.first, visit);
    if (found != nullptr) visit.row.distance = found->Norm();
    return found != nullptr;
  }
  bool KnowsTurn(Visit& visit) {
    if (cache_ == nullptr) return false;
    const auto* const found =
        cache_->FindTurn(At(*visit.two_before).key, At(*visit.before).key, visit.key);
    if (found != nullptr) visit.row.turn = *found;
    return found != nullptr;
  }

  TensorPlan& plan_;
  const MeasureOptions& options_;
  const MeasureCache* const cache_;
  std::optional<uint32_t> last_;  // that is not hidden
};

/// Nothing has moved.
TensorUpdate NoUpdate(const TensorMoments& moments) {
  TensorUpdate none;
  none.count = moments.count;
  none.finite = moments.finite();
  none.squares_before = none.squares_after = moments.Norm() * moments.Norm();
  return none;
}

/// Whatever shows that nothing has moved, digests or elements: the numbers are the same.
void Settle(TensorPlan& plan, Visit& visit) {
  TensorMeasure& row = visit.row;
  if (!visit.before) return;
  if (!row.update || row.update->changed == 0) row.update = NoUpdate(row.moments);
  const bool turned = visit.two_before && row.update->changed != 0 &&
                      plan.visits[*visit.before].row.update->changed != 0;
  if (!turned) row.turn.reset();
}

void Remember(const TensorPlan& plan, const Visit& visit, MeasureCache& cache) {
  if (visit.key.empty()) return;
  const TensorMeasure& row = visit.row;
  if (visit.moments) cache.AddMoments(visit.key, {row.moments, row.first_nan});
  const MeasureCache::Key& first = plan.visits[visit.first].key;
  if (visit.distance && !first.empty()) cache.AddUpdate(first, visit.key, visit.from_first);
  if (!visit.before || plan.visits[*visit.before].key.empty()) return;
  const MeasureCache::Key& before = plan.visits[*visit.before].key;
  if (visit.update) cache.AddUpdate(before, visit.key, *row.update);
  if (!visit.turn || plan.visits[*visit.two_before].key.empty()) return;
  cache.AddTurn(plan.visits[*visit.two_before].key, before, visit.key, *row.turn);
}

}  // namespace

Visit* TensorPlan::At(uint32_t checkpoint) {
  const auto found = std::ranges::lower_bound(visits, checkpoint, {}, &Visit::checkpoint);
  return found != visits.end() && found->checkpoint == checkpoint ? &*found : nullptr;
}

bool TensorPlan::reads() const {
  return std::ranges::any_of(visits, [](const Visit& visit) { return visit.read; });
}

uint64_t TensorPlan::bytes() const {
  uint64_t most = 0;
  for (const Visit& visit : visits) most = std::max(most, visit.form.bytes);
  return most;
}

MeasureCache::Key ContentKeys::Of(uint32_t t, uint32_t i) {
  if (const auto content = run_.Content(t, i)) return Hex(*content);
  if (!all_) return {};
  auto found = files_.find(t);
  if (found == files_.end()) found = files_.emplace(t, FilesOf(run_, t)).first;
  const std::string& files = found->second;
  if (files.empty()) return {};
  return Hex(HashText(files + std::string(run_.tensor(i).name)));
}

TensorPlan PlanTensor(const Trajectory& run, const TrajectorySelection& selection, uint32_t tensor,
                      const MeasureOptions& options, ContentKeys& keys) {
  TensorPlan plan;
  plan.tensor = tensor;
  std::vector<uint32_t> checkpoints = selection.checkpoints;
  const auto at =
      options.against ? std::ranges::lower_bound(checkpoints, *options.against) : checkpoints.end();
  const bool hidden = options.against && (at == checkpoints.end() || *at != *options.against);
  if (hidden) checkpoints.insert(at, *options.against);
  for (const uint32_t t : checkpoints) {
    const auto form = run.Form(t, tensor);
    if (!form) continue;
    if (options.against == t) plan.against = static_cast<uint32_t>(plan.visits.size());
    Visit& visit = plan.visits.emplace_back();
    visit.checkpoint = t;
    visit.form = *form;
    visit.key = keys.Of(t, tensor);
    visit.hidden = hidden && options.against == t;
    visit.row.checkpoint = t;
    visit.row.tensor = tensor;
  }
  Planner(plan, options).Run();
  return plan;
}

void FinishRows(TensorPlan& plan, const MeasureOptions& options) {
  for (Visit& visit : plan.visits) {
    if (visit.hidden) continue;
    if (options.cache != nullptr) Remember(plan, visit, *options.cache);
    const Visit& content = plan.visits[visit.content];
    const bool copied = &content != &visit;
    if (copied) {
      visit.row.moments = content.row.moments;
      visit.row.first_nan = content.row.first_nan;
      visit.row.distance = content.row.distance;
    }
    Settle(plan, visit);
    const bool from_first = visit.before && visit.before == visit.first;
    if (!copied && from_first) visit.row.distance = visit.row.update->Norm();
  }
}

}  // namespace dsckpt::trajectory

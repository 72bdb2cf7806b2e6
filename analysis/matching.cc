#include "analysis/matching.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace dsckpt::analysis {
namespace {

using Renaming = std::function<Result<std::optional<std::string>>(std::string_view)>;
/// Ordinals by the names under which tensors are compared.
using Names = std::map<std::string, uint32_t>;

Result<Names> NamesOf(const Checkpoint& checkpoint, const Renaming& rename) {
  Names names;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const std::string_view own = checkpoint.tensor(i).name;
    std::optional<std::string> name(own);
    if (rename) {
      DSCKPT_ASSIGN_OR_RETURN(name, rename(own));
    }
    if (!name) continue;
    const auto [at, added] = names.emplace(*std::move(name), i);
    if (added) continue;
    return Status(StatusCode::kInvalidArgument,
                  checkpoint.path() + ": tensors '" +
                      std::string(checkpoint.tensor(at->second).name) + "' and '" +
                      std::string(own) + "' would both be compared as '" + at->first +
                      "': give other rules for names, or leave one out")
        .WithPath(checkpoint.path());
  }
  return names;
}

/// What two tensors must have in common to be one that moved.
using Form = std::pair<uint16_t, std::vector<int64_t>>;

Form FormOf(const LogicalTensorInfo& info) {
  return {static_cast<uint16_t>(info.dtype.code), {info.shape.begin(), info.shape.end()}};
}

Result<Hash128> DigestOf(const Checkpoint& checkpoint, uint32_t tensor, uint64_t& read_bytes) {
  DSCKPT_ASSIGN_OR_RETURN(const auto stored, checkpoint.Digest(tensor));
  if (stored) return *stored;
  read_bytes += checkpoint.tensor(tensor).bytes;
  return checkpoint.ComputeDigest(tensor);
}

/// Tensors of both sides are decided where shapes differ, or digests are equal.
Result<Match> MatchPair(const Checkpoint& a, const Checkpoint& b, uint32_t tensor_a,
                        uint32_t tensor_b, bool whole) {
  const LogicalTensorInfo info_a = a.tensor(tensor_a), info_b = b.tensor(tensor_b);
  Match match;
  match.diff.name_a = info_a.name;
  match.diff.name_b = info_b.name;
  match.diff.tensor_a = tensor_a;
  match.diff.tensor_b = tensor_b;
  if (!std::ranges::equal(info_a.shape, info_b.shape)) {
    match.diff.state = DiffState::kReshaped;
    return match;
  }
  match.undecided = true;
  if (info_a.dtype.code != info_b.dtype.code) {
    match.diff.state = DiffState::kRetyped;
    return match;
  }
  if (info_a.bytes == 0) match.undecided = false;
  if (whole || !match.undecided) return match;
  DSCKPT_ASSIGN_OR_RETURN(const auto digest_a, a.Digest(tensor_a));
  if (!digest_a) return match;
  DSCKPT_ASSIGN_OR_RETURN(const auto digest_b, b.Digest(tensor_b));
  match.undecided = !digest_b || *digest_a != *digest_b;
  return match;
}

/// Tensors of one side only that have one form with a tensor of the other side only.
class Moves {
 public:
  Moves(const Checkpoint& a, const Checkpoint& b) : a_(a), b_(b) {}

  void AddRemoved(uint32_t tensor) { removed_[FormOf(a_.tensor(tensor))].push_back(tensor); }

  /// The tensor of `a` that `tensor` of `b` was, each at most once.
  Result<std::optional<uint32_t>> Take(uint32_t tensor, uint64_t& read_bytes) {
    const auto found = removed_.find(FormOf(b_.tensor(tensor)));
    if (found == removed_.end() || found->second.empty()) return std::optional<uint32_t>();
    DSCKPT_ASSIGN_OR_RETURN(const Hash128 wanted, DigestOf(b_, tensor, read_bytes));
    std::vector<uint32_t>& candidates = found->second;
    for (size_t i = 0; i < candidates.size(); ++i) {
      DSCKPT_ASSIGN_OR_RETURN(const Hash128 digest, KnownDigest(candidates[i], read_bytes));
      if (digest != wanted) continue;
      const uint32_t taken = candidates[i];
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
      return std::optional(taken);
    }
    return std::optional<uint32_t>();
  }

 private:
  Result<Hash128> KnownDigest(uint32_t tensor, uint64_t& read_bytes) {
    if (const auto known = digests_.find(tensor); known != digests_.end()) return known->second;
    DSCKPT_ASSIGN_OR_RETURN(const Hash128 digest, DigestOf(a_, tensor, read_bytes));
    digests_.emplace(tensor, digest);
    return digest;
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  std::map<Form, std::vector<uint32_t>> removed_;
  std::map<uint32_t, Hash128> digests_;
};

}  // namespace

Result<std::vector<Match>> MatchTensors(const Checkpoint& a, const Checkpoint& b,
                                        const DiffOptions& options, uint64_t& read_bytes) {
  DSCKPT_ASSIGN_OR_RETURN(Names names_a, NamesOf(a, options.name_a));
  DSCKPT_ASSIGN_OR_RETURN(Names names_b, NamesOf(b, options.name_b));
  std::map<std::string, Match> matches;
  Moves moves(a, b);
  for (const auto& [name, tensor] : names_a) {
    const auto other = names_b.find(name);
    if (other == names_b.end()) {
      moves.AddRemoved(tensor);
      continue;
    }
    DSCKPT_ASSIGN_OR_RETURN(Match match, MatchPair(a, b, tensor, other->second, options.whole));
    matches.emplace(name, std::move(match));
  }
  std::map<uint32_t, uint32_t> moved;  // tensors of a -> of b
  for (const auto& [name, tensor] : names_b) {
    if (names_a.contains(name)) continue;
    Match match;
    match.diff.state = DiffState::kAdded;
    match.diff.name_b = b.tensor(tensor).name;
    match.diff.tensor_b = tensor;
    DSCKPT_ASSIGN_OR_RETURN(const auto source, moves.Take(tensor, read_bytes));
    if (source) {
      match.diff.state = DiffState::kMoved;
      match.diff.name_a = a.tensor(*source).name;
      match.diff.tensor_a = *source;
      moved.emplace(*source, tensor);
    }
    matches.emplace(name, std::move(match));
  }
  for (const auto& [name, tensor] : names_a) {
    if (names_b.contains(name) || moved.contains(tensor)) continue;
    Match match;
    match.diff.state = DiffState::kRemoved;
    match.diff.name_a = a.tensor(tensor).name;
    match.diff.tensor_a = tensor;
    matches.emplace(name, std::move(match));
  }
  std::vector<Match> all;
  for (auto& [name, match] : matches) all.push_back(std::move(match));
  return all;
}

}  // namespace dsckpt::analysis

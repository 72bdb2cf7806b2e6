#include "writer/group/copies.h"

#include <algorithm>
#include <optional>
#include <string>

#include "format/names.h"

namespace dsckpt {
namespace {

class CopyCheck {
 public:
  CopyCheck(const format::ManifestView& manifest,
            const std::vector<std::vector<StoredContent>>& contents)
      : manifest_(manifest), pieces_(manifest.pieces), contents_(contents) {}

  Status Check() {
    for (uint32_t logical = 0; logical < pieces_.logical_names.size(); ++logical) {
      const auto [first, last] = manifest_.PiecesOf(logical);
      if (last - first < 2) continue;
      Compare(logical, first, last);
    }
    if (!first_) return Status();
    const auto& [logical, a, b] = *first_;
    std::string others;
    if (differing_ > 1) others = " (and " + std::to_string(differing_ - 1) + " more tensors)";
    return Status(StatusCode::kMismatch, "tensor '" + Printable(pieces_.logical_names[logical]) +
                                             "' differs between " + Holder(a, b) + " and " +
                                             Holder(b, a) + others + kDeclareRankOwn);
  }

 private:
  struct Difference {
    uint32_t logical, a, b;
  };

  uint32_t RankOf(uint32_t piece) const {
    return manifest_.shard_rank[manifest_.piece_shard[piece]];
  }
  // Who saved a piece: the rank, or which of its shards where another of them has the other piece.
  std::string Holder(uint32_t piece, uint32_t other) const {
    const std::string rank = "rank " + std::to_string(RankOf(piece));
    if (RankOf(piece) != RankOf(other)) return rank;
    const std::string_view shard = manifest_.shard_names[manifest_.piece_shard[piece]];
    return "shard '" + Printable(shard) + "' of " + rank;
  }
  const StoredContent* ContentOf(uint32_t piece) const {
    const uint32_t shard = manifest_.piece_shard[piece];
    const uint32_t tensor = pieces_.tensor[piece];
    if (shard >= contents_.size() || tensor >= contents_[shard].size()) return nullptr;
    return &contents_[shard][tensor];
  }

  // Elements, where bounds say; they were checked against the logical shape.
  std::optional<uint64_t> ElementsOf(uint32_t piece) const {
    const auto bounds = pieces_.bounds_of(piece);
    switch (Piece::Form{pieces_.form[piece]}) {
      case Piece::Form::kFlat:
        return bounds[1];
      case Piece::Form::kBox: {
        uint64_t elements = 1;
        for (size_t i = bounds.size() / 2; i < bounds.size(); ++i) elements *= bounds[i];
        return elements;
      }
    }
    return std::nullopt;
  }

  bool IsAllOfItsTensor(uint32_t piece) const {
    const StoredContent* const content = ContentOf(piece);
    if (content == nullptr || pieces_.element_offset[piece] != 0) return false;
    const auto elements = ElementsOf(piece);
    const auto& dtype = manifest_.dtypes[manifest_.logical_dtype[pieces_.logical[piece]]];
    return elements && *elements / dtype.block_elements * dtype.block_bytes == content->raw_bytes;
  }

  bool SameBounds(uint32_t a, uint32_t b) const {
    const auto x = pieces_.bounds_of(a), y = pieces_.bounds_of(b);
    return pieces_.form[a] == pieces_.form[b] && std::equal(x.begin(), x.end(), y.begin(), y.end());
  }
  bool BoundsLess(uint32_t a, uint32_t b) const {
    if (pieces_.form[a] != pieces_.form[b]) return pieces_.form[a] < pieces_.form[b];
    const auto x = pieces_.bounds_of(a), y = pieces_.bounds_of(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  }

  void Compare(uint32_t logical, uint32_t first, uint32_t last) {
    order_.clear();
    for (uint32_t i = first; i < last; ++i) {
      if (IsAllOfItsTensor(i)) order_.push_back(i);
    }
    // Stable: the piece of the lowest rank stays first among those of equal bounds.
    std::stable_sort(order_.begin(), order_.end(),
                     [this](uint32_t a, uint32_t b) { return BoundsLess(a, b); });
    for (size_t i = 1, begin = 0; i < order_.size(); ++i) {
      if (!SameBounds(order_[begin], order_[i])) {
        begin = i;
      } else if (ContentOf(order_[begin])->hash != ContentOf(order_[i])->hash) {
        if (!first_) first_ = {logical, order_[begin], order_[i]};
        ++differing_;
        return;
      }
    }
  }

  const format::ManifestView& manifest_;
  const format::PieceView& pieces_;
  const std::vector<std::vector<StoredContent>>& contents_;
  std::vector<uint32_t> order_;
  std::optional<Difference> first_;
  uint32_t differing_ = 0;
};

}  // namespace

const char* const kDeclareRankOwn =
    ". What ranks save under one name is one tensor: make it equal on all of them before the save, "
    "or declare what belongs to each rank with RankOwn() (dsckpt.rank_own() in Python)";

Status CheckCopies(const format::ManifestView& manifest,
                   const std::vector<std::vector<StoredContent>>& contents) {
  return CopyCheck(manifest, contents).Check();
}

}  // namespace dsckpt

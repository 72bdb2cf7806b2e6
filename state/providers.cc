// Combine, WithPrefix, WithEncoding, Sharded, RankOwn, MakeProvider.

#include <algorithm>
#include <utility>

#include "dsckpt/piece.h"
#include "dsckpt/provider.h"

namespace dsckpt {
namespace {

using Part = std::shared_ptr<const StateProvider>;

class CombinedProvider final : public StateProvider {
 public:
  explicit CombinedProvider(std::vector<Part> parts) : parts_(std::move(parts)) {}
  void Describe(Description& description) const override {
    for (const Part& part : parts_) part->Describe(description);
  }

 private:
  std::vector<Part> parts_;
};

class PrefixProvider final : public StateProvider {
 public:
  PrefixProvider(std::string key, Part part) : key_(std::move(key)), part_(std::move(part)) {}
  void Describe(Description& description) const override {
    description.Begin(NodeKind::kDict, key_);
    part_->Describe(description);
    description.End();
  }

 private:
  std::string key_;
  Part part_;
};

class EncodingProvider final : public StateProvider {
 public:
  EncodingProvider(Encoding encoding, Part part) : encoding_(encoding), part_(std::move(part)) {}
  void Describe(Description& description) const override {
    const Encoding before = description.SetDefaultEncoding(encoding_);
    part_->Describe(description);
    (void)description.SetDefaultEncoding(before);
  }

 private:
  Encoding encoding_;
  Part part_;
};

class ShardedProvider final : public StateProvider {
 public:
  ShardedProvider(Part part, PiecesOf pieces)
      : part_(std::move(part)), pieces_(std::move(pieces)) {}
  void Describe(Description& description) const override {
    PiecesOf before = description.SetDefaultPieces(pieces_);
    part_->Describe(description);
    (void)description.SetDefaultPieces(std::move(before));
  }

 private:
  Part part_;
  PiecesOf pieces_;
};

class RankOwnProvider final : public StateProvider {
 public:
  RankOwnProvider(Part part, uint32_t rank) : part_(std::move(part)), rank_(rank) {}
  void Describe(Description& description) const override {
    // A Sharded() around it speaks of what ranks share.
    PiecesOf pieces = description.SetDefaultPieces({});
    const auto before = description.SetRankOwn(rank_);
    part_->Describe(description);
    (void)description.SetRankOwn(before);
    (void)description.SetDefaultPieces(std::move(pieces));
  }

 private:
  Part part_;
  uint32_t rank_;
};

class FunctionProvider final : public StateProvider {
 public:
  explicit FunctionProvider(std::function<void(Description&)> describe)
      : describe_(std::move(describe)) {}
  void Describe(Description& description) const override { describe_(description); }

 private:
  std::function<void(Description&)> describe_;
};

}  // namespace

std::unique_ptr<StateProvider> Combine(std::vector<Part> parts) {
  return std::make_unique<CombinedProvider>(std::move(parts));
}

std::unique_ptr<StateProvider> WithPrefix(std::string key, Part part) {
  return std::make_unique<PrefixProvider>(std::move(key), std::move(part));
}

std::unique_ptr<StateProvider> WithEncoding(Encoding encoding, Part part) {
  return std::make_unique<EncodingProvider>(encoding, std::move(part));
}

std::unique_ptr<StateProvider> Sharded(Part part, PiecesOf pieces) {
  return std::make_unique<ShardedProvider>(std::move(part), std::move(pieces));
}

std::unique_ptr<StateProvider> RankOwn(Part part, uint32_t rank) {
  return std::make_unique<RankOwnProvider>(std::move(part), rank);
}

std::vector<Range> SplitBox(std::span<const int64_t> logical_shape, size_t dim, int64_t index,
                            int64_t count) {
  std::vector<Range> box;
  for (const int64_t size : logical_shape) box.push_back({0, size});
  const int64_t size = logical_shape[dim];
  const int64_t rows = size / count + (size % count != 0);
  // Compared before it is multiplied, so that no index overflows.
  const int64_t begin = rows == 0 || index > size / rows ? size : index * rows;
  box[dim] = {begin, begin + std::min(rows, size - begin)};
  return box;
}

std::unique_ptr<StateProvider> MakeProvider(std::function<void(Description&)> describe) {
  return std::make_unique<FunctionProvider>(std::move(describe));
}

}  // namespace dsckpt

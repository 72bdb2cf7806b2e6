#include "state/file_layout_pieces.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "format/names.h"
#include "format/pieces/fold.h"

namespace dsckpt {
namespace {

using Data = Description::Data;

class PieceFiller {
 public:
  PieceFiller(const Data& data, FileLayout& layout) : data_(data), out_(layout) {}

  Status Fill() {
    all_ = data_.identity.pieces;
    for (const uint32_t tensor : all_.tensor) described_.push_back(SourceIndex(tensor));
    DSCKPT_RETURN_IF_ERROR(AddWholeTies());
    for (size_t i = 0; i < described_.size(); ++i) all_.tensor[i] = Stored(described_[i]).value();
    const auto shapes = [this](uint32_t a, uint32_t b) { return ShapeConflict(a, b); };
    const auto dtypes = [this](uint32_t a, uint32_t b) { return DTypeConflict(a, b); };
    DSCKPT_ASSIGN_OR_RETURN(
        out_.columns.pieces,
        format::FoldPieces(all_, format::PieceOrder::kByTensor, dtypes, shapes));
    return CheckUndeclared();
  }

 private:
  TensorOrdinal Stored(SourceIndex source) const { return out_.StoredTensor(source); }
  std::string Title(SourceIndex source) const {
    return "'" + format::Printable(data_.identity.TensorName(source)) + "'";
  }

  Status AddWholeTies() {
    OrdinalVector<SourceIndex, bool> names_some(data_.identity.tensors.size());
    declared_.resize(out_.tensors.size());
    for (const SourceIndex described : described_) {
      names_some[described] = true;
      declared_[Stored(described)] = true;
    }
    const auto add = [&](SourceIndex described) {
      if (names_some[described] || !declared_[Stored(described)]) return Status();
      described_.push_back(described);
      std::vector<Range> box;
      for (const int64_t dim : data_.Shape(described)) box.push_back({0, dim});
      return format::AppendPiece(all_, described.value(),
                                 Piece{.logical_name = data_.identity.TensorName(described),
                                       .logical_shape = data_.Shape(described),
                                       .box = box});
    };
    // Only a stored tensor that has aliases can be declared without naming pieces.
    for (const TensorOrdinal target : out_.alias_target) {
      const SourceIndex described = out_.tensors[target];
      DSCKPT_RETURN_IF_ERROR(add(described));
      names_some[described] = true;
    }
    for (const SourceIndex alias : out_.aliases) DSCKPT_RETURN_IF_ERROR(add(alias));
    return {};
  }

  Status Conflict(std::string_view logical, const char* what, SourceIndex a,
                  const std::string& a_value, SourceIndex b, const std::string& b_value) const {
    return Status(StatusCode::kInvalidArgument,
                  "logical tensor '" + format::Printable(logical) + "' has " + what + " " +
                      a_value + " in tensor " + Title(a) + " and " + b_value + " in " + Title(b));
  }

  Status ShapeConflict(uint32_t a, uint32_t b) const {
    const format::PieceView all = format::ViewOf(all_);
    return Conflict(all.logical_names[a], "shape", described_[a],
                    format::ShapeText(all.logical_shape(a)), described_[b],
                    format::ShapeText(all.logical_shape(b)));
  }

  Status SameDType(std::string_view logical, SourceIndex a, SourceIndex b) const {
    const DType x = data_.identity.tensors[a].dtype;
    const DType y = data_.identity.tensors[b].dtype;
    if (x == y) return {};
    return Conflict(logical, "dtype", a, std::string(FindDType(x)->name), b,
                    std::string(FindDType(y)->name));
  }
  Status DTypeConflict(uint32_t a, uint32_t b) const {
    return SameDType(all_.logical_names[a], described_[a], described_[b]);
  }

  // The described tensor that is a logical tensor of this name without saying so, or nothing.
  std::optional<SourceIndex> Undeclared(std::string_view name) const {
    const auto find = [name](const format::NameColumns& names) {
      return format::NameView{names.bytes, names.ends}.Find(name);
    };
    if (const auto tensor = find(out_.columns.tensor_names)) {
      if (const TensorOrdinal i(*tensor); !declared_[i]) return out_.tensors[i];
    } else if (const auto alias = find(out_.columns.alias_names)) {
      if (const AliasOrdinal i(*alias); !declared_[out_.alias_target[i]]) return out_.aliases[i];
    }
    return std::nullopt;
  }

  Status CheckUndeclared() const {
    const format::PieceColumns& columns = out_.columns.pieces;
    const format::PieceView pieces = format::ViewOf(columns);
    std::vector<bool> seen(pieces.logical_names.size());
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      const uint32_t logical = pieces.logical[i];
      if (seen[logical]) continue;
      seen[logical] = true;
      const std::string_view name = pieces.logical_names[logical];
      const auto whole = Undeclared(name);
      if (!whole) continue;
      const SourceIndex described = out_.tensors[TensorOrdinal(pieces.tensor[i])];
      const auto shape = pieces.logical_shape(logical);
      const auto own = data_.Shape(*whole);
      if (!std::equal(shape.begin(), shape.end(), own.begin(), own.end())) {
        return Conflict(name, "shape", described, format::ShapeText(shape), *whole,
                        format::ShapeText(own));
      }
      DSCKPT_RETURN_IF_ERROR(SameDType(name, described, *whole));
    }
    return {};
  }

  const Data& data_;
  FileLayout& out_;
  format::PieceColumns all_;                     // A logical tensor a piece.
  std::vector<SourceIndex> described_;           // By piece of all_: the tensor that names it.
  OrdinalVector<TensorOrdinal, bool> declared_;  // Has pieces.
};

}  // namespace

Status FillPieces(const Data& description, FileLayout& layout) {
  if (description.identity.pieces.size() == 0) return {};
  return PieceFiller(description, layout).Fill();
}

}  // namespace dsckpt

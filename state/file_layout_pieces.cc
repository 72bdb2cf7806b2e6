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
    all_ = data_.pieces;
    described_ = all_.tensor;
    DSCKPT_RETURN_IF_ERROR(AddWholeTies());
    for (uint32_t& tensor : all_.tensor) tensor = Stored(tensor);
    const auto shapes = [this](uint32_t a, uint32_t b) { return ShapeConflict(a, b); };
    const auto dtypes = [this](uint32_t a, uint32_t b) { return DTypeConflict(a, b); };
    DSCKPT_ASSIGN_OR_RETURN(
        out_.columns.pieces,
        format::FoldPieces(all_, format::PieceOrder::kByTensor, dtypes, shapes));
    return CheckUndeclared();
  }

 private:
  uint32_t Stored(uint32_t described) const {
    const uint32_t ordinal = out_.tensor_ordinal[described];
    if ((ordinal & FileLayout::kAliasBit) == 0) return ordinal;
    return out_.alias_target[ordinal & ~FileLayout::kAliasBit];
  }
  std::span<const int64_t> Shape(uint32_t described) const {
    return std::span(data_.dims)
        .subspan(data_.tensor_sources[described].dims_begin, data_.tensors[described].rank);
  }
  std::string Title(uint32_t described) const {
    return "'" + format::Printable(data_.tensor_names[described]) + "'";
  }

  Status AddWholeTies() {
    std::vector<bool> names_some(data_.tensors.size());
    declared_.resize(out_.tensors.size());
    for (const uint32_t described : described_) {
      names_some[described] = true;
      declared_[Stored(described)] = true;
    }
    const auto add = [&](uint32_t described) {
      if (names_some[described] || !declared_[Stored(described)]) return Status();
      described_.push_back(described);
      std::vector<Range> box;
      for (const int64_t dim : Shape(described)) box.push_back({0, dim});
      return format::AppendPiece(all_, described,
                                 Piece{.logical_name = data_.tensor_names[described],
                                       .logical_shape = Shape(described),
                                       .box = box});
    };
    // Only a stored tensor that has aliases can be declared without naming pieces.
    for (const uint32_t target : out_.alias_target) {
      const uint32_t described = out_.tensors[target];
      DSCKPT_RETURN_IF_ERROR(add(described));
      names_some[described] = true;
    }
    for (const uint32_t alias : out_.aliases) DSCKPT_RETURN_IF_ERROR(add(alias));
    return {};
  }

  Status Conflict(std::string_view logical, const char* what, uint32_t a,
                  const std::string& a_value, uint32_t b, const std::string& b_value) const {
    return Status(StatusCode::kInvalidArgument,
                  "logical tensor '" + format::Printable(logical) + "' has " + what + " " +
                      a_value + " in tensor " + Title(a) + " and " + b_value + " in " + Title(b));
  }

  Status ShapeConflict(uint32_t a, uint32_t b) const {
    const format::PieceView all = format::ViewOf(all_);
    return Conflict(all.logical_names[a], "shape", described_[a], ShapeText(all.logical_shape(a)),
                    described_[b], ShapeText(all.logical_shape(b)));
  }

  Status SameDType(std::string_view logical, uint32_t a, uint32_t b) const {
    const DType x = data_.tensors[a].dtype;
    const DType y = data_.tensors[b].dtype;
    if (x == y) return {};
    return Conflict(logical, "dtype", a, std::string(FindDType(x)->name), b,
                    std::string(FindDType(y)->name));
  }
  Status DTypeConflict(uint32_t a, uint32_t b) const {
    return SameDType(all_.logical_names[a], described_[a], described_[b]);
  }

  // The described tensor that is a logical tensor of this name without saying so, or nothing.
  std::optional<uint32_t> Undeclared(std::string_view name) const {
    const auto find = [name](const format::NameColumns& names) {
      return format::NameView{names.bytes, names.ends}.Find(name);
    };
    if (const auto tensor = find(out_.columns.tensor_names)) {
      if (!declared_[*tensor]) return out_.tensors[*tensor];
    } else if (const auto alias = find(out_.columns.alias_names)) {
      if (!declared_[out_.alias_target[*alias]]) return out_.aliases[*alias];
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
      const uint32_t described = out_.tensors[pieces.tensor[i]];
      const auto shape = pieces.logical_shape(logical);
      const auto own = Shape(*whole);
      if (!std::equal(shape.begin(), shape.end(), own.begin(), own.end())) {
        return Conflict(name, "shape", described, ShapeText(shape), *whole, ShapeText(own));
      }
      DSCKPT_RETURN_IF_ERROR(SameDType(name, described, *whole));
    }
    return {};
  }

  const Data& data_;
  FileLayout& out_;
  format::PieceColumns all_;         // A logical tensor a piece.
  std::vector<uint32_t> described_;  // By piece of all_: the tensor that names it.
  std::vector<bool> declared_;       // By ordinal: has pieces.
};

}  // namespace

Status FillPieces(const Data& description, FileLayout& layout) {
  if (description.pieces.size() == 0) return {};
  return PieceFiller(description, layout).Fill();
}

}  // namespace dsckpt

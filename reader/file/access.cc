// File: what it says of itself and of its items, and looking them up by name.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "format/checksum.h"
#include "format/header/header.h"
#include "format/names.h"
#include "format/rank_own.h"
#include "reader/file/file_impl.h"

namespace dsckpt {

namespace {

Status Missing(std::string_view what, std::string_view name, const File::Impl& impl) {
  std::string message = "no ";
  message.append(what).append(" '").append(Printable(name)).append("' in the file");
  return reader::InFile(Status(StatusCode::kNotFound, std::move(message)), *impl.input);
}

}  // namespace

std::optional<uint32_t> File::Impl::FindTensor(std::string_view name, uint32_t hint) const {
  if (hint < index.tensor_names.size() && index.tensor_names[hint] == name) return hint;
  if (const auto tensor = index.tensor_names.Find(name)) return tensor;
  if (const auto alias = index.alias_names.Find(name)) return index.alias_target[*alias];
  return std::nullopt;
}

Result<uint32_t> File::Impl::TensorOrdinal(std::string_view name, uint32_t hint) const {
  if (const auto tensor = FindTensor(name, hint)) return *tensor;
  return Missing("tensor", name, *this);
}

Result<uint32_t> File::Impl::ObjectOrdinal(std::string_view name) const {
  if (const auto object = index.object_names.Find(name)) return *object;
  return Missing("object", name, *this);
}

TensorInfo File::Impl::Info(uint32_t tensor) const {
  TensorInfo info;
  info.name = index.tensor_names[tensor];
  info.dtype = dtypes[index.tensor_dtype[tensor]];
  info.shape = index.shape(tensor);
  info.raw_bytes = index.tensors.raw_bytes[tensor];
  info.stored_bytes = index.tensors.stored_bytes[tensor];
  info.offset = index.tensors.offset[tensor];
  info.encoding = static_cast<Encoding>(index.tensors.encoding[tensor]);
  info.ordinal = tensor;
  return info;
}

Result<reader::StoredItem> File::Impl::ReadableTensor(uint32_t tensor) const {
  const reader::StoredItem item = reader::TensorItem(index, tensor);
  const DTypeInfo& dtype = dtypes[index.tensor_dtype[tensor]];
  if (!FindDType(dtype.code)) {
    const std::string code = std::to_string(static_cast<unsigned>(dtype.code));
    return reader::InFile(
        Status(StatusCode::kUnsupported,
               item.Title() + " has dtype code " + code +
                   ", which this release does not know: read it with a newer dsckpt"),
        *input);
  }
  DSCKPT_RETURN_IF_ERROR(reader::InFile(reader::CheckDecodable(item), *input));
  return item;
}

FileFormat File::format() const { return impl_->format; }
const std::string& File::path() const { return impl_->input->path(); }
uint64_t File::file_bytes() const { return impl_->input->size(); }

std::string File::format_version() const {
  if (impl_->format == FileFormat::kSafetensors) return "";
  return std::to_string(impl_->footer.version_major) + "." +
         std::to_string(impl_->footer.version_minor);
}

uint8_t File::hash_id() const {
  return impl_->format == FileFormat::kDsckpt ? impl_->index.chunk_sums.hash_id : 0;
}

bool File::verifiable() const { return hash_id() == format::kHashXxh3; }

uint32_t File::tensor_count() const { return impl_->index.tensor_names.size(); }
uint32_t File::alias_count() const { return impl_->index.alias_names.size(); }
uint32_t File::object_count() const { return impl_->index.object_names.size(); }

TensorInfo File::tensor(uint32_t index) const { return impl_->Info(index); }

AliasInfo File::alias(uint32_t index) const {
  return {impl_->index.alias_names[index], impl_->index.alias_target[index]};
}

ObjectInfo File::object(uint32_t index) const {
  const format::IndexView& view = impl_->index;
  ObjectInfo info;
  info.name = view.object_names[index];
  info.media_type = view.media_types[view.object_media_type[index]];
  info.raw_bytes = view.objects.raw_bytes[index];
  info.stored_bytes = view.objects.stored_bytes[index];
  info.offset = view.objects.offset[index];
  info.encoding = static_cast<Encoding>(view.objects.encoding[index]);
  info.ordinal = index;
  return info;
}

Result<TensorInfo> File::FindTensor(std::string_view name) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t tensor, impl_->TensorOrdinal(name));
  return impl_->Info(tensor);
}

Result<ObjectInfo> File::FindObject(std::string_view name) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t found, impl_->ObjectOrdinal(name));
  return object(found);
}

std::vector<OwnedPiece> File::Pieces(const TensorInfo& tensor) const {
  const format::PieceView& pieces = impl_->index.pieces;
  // Pieces ascend by stored tensor.
  const auto [first, last] =
      std::equal_range(pieces.tensor.begin(), pieces.tensor.end(), tensor.ordinal);
  std::vector<OwnedPiece> out;
  for (auto at = first; at != last; ++at) {
    auto piece = pieces.Get(static_cast<uint32_t>(at - pieces.tensor.begin()));
    if (piece) out.push_back(std::move(*piece));
  }
  return out;
}

std::vector<std::string_view> File::RankOwnNames() const {
  const format::NameView& roots = impl_->index.rank_own;
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < roots.size(); ++i) names.push_back(roots[i]);
  return names;
}

uint32_t File::OwnerRank() const { return impl_->index.rank; }

bool File::IsRankOwn(std::string_view name) const {
  return format::IsRankOwn(impl_->index.rank_own, name);
}

std::optional<Hash128> File::Digest(const TensorInfo& tensor) const {
  if (!verifiable()) return std::nullopt;
  return format::TensorDigest(static_cast<uint16_t>(tensor.dtype.code), tensor.shape,
                              format::TensorSums(impl_->index, tensor.ordinal));
}

std::optional<Hash128> File::Digest(const ObjectInfo& object) const {
  if (!verifiable()) return std::nullopt;
  return format::ObjectDigest(object.raw_bytes, format::ObjectSums(impl_->index, object.ordinal));
}

std::optional<Hash128> File::ContentDigest() const { return impl_->index.annotations.content; }

std::vector<std::pair<std::string_view, std::string_view>> File::Vendor() const {
  std::vector<std::pair<std::string_view, std::string_view>> entries;
  for (const auto& [name, data] : impl_->index.annotations.vendor) entries.emplace_back(name, data);
  return entries;
}

std::optional<TensorStatistics> File::Statistics(const TensorInfo& tensor) const {
  const format::StatisticsView& all = impl_->index.annotations.statistics;
  const auto found = std::ranges::lower_bound(all.tensor, tensor.ordinal);
  if (found == all.tensor.end() || *found != tensor.ordinal) return std::nullopt;
  const auto i = static_cast<size_t>(found - all.tensor.begin());
  return TensorStatistics{.nan = all.nan[i],
                          .inf = all.inf[i],
                          .zero = all.zero[i],
                          .min = all.min[i],
                          .max = all.max[i],
                          .sum = all.sum[i],
                          .sum_squares = all.sum_squares[i]};
}

// The nodes' owner is the whole open file: aliasing pointers keep it alive.
std::optional<Node> File::tree() const {
  if (impl_->index.tree.nodes.empty()) return std::nullopt;
  return Node(std::shared_ptr<const TreeData>(impl_, &impl_->tree), 0);
}

std::optional<Node> File::attributes() const {
  if (impl_->index.attributes.nodes.empty()) return std::nullopt;
  return Node(std::shared_ptr<const TreeData>(impl_, &impl_->attributes), 0);
}

Result<Value> File::Attribute(std::string_view name) const {
  if (const auto root = attributes()) {
    if (const auto node = root->Find(Key(name))) return node->value();
  }
  return Missing("attribute", name, *impl_);
}

Result<std::vector<std::pair<std::string, std::string>>> File::Metadata() const {
  const io::InputFile& input = *impl_->input;
  auto region = reader::ReadHeaderRegion(input, impl_->header_bytes);
  if (!region.ok()) return reader::InFile(region.status(), input);
  const std::span<const char> text = *region;
  if (impl_->format == FileFormat::kDsckpt &&
      format::Hash64(std::as_bytes(text)) != impl_->footer.header_xxh3_64) {
    return reader::InFile(Status(StatusCode::kCorrupt,
                                 "the checksum of the JSON header does not match: the file is "
                                 "damaged; the index and the tensors may still be whole ('dsckpt "
                                 "verify' tells)")
                              .WithOffset(0),
                          input);
  }
  auto metadata = format::ParseMetadata(std::string_view(*region).substr(8),
                                        input.size() - impl_->header_bytes);
  if (!metadata.ok()) return reader::InFile(metadata.status(), input);
  return metadata;
}

}  // namespace dsckpt

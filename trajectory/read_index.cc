#include "trajectory/read_index.h"

#include <algorithm>
#include <map>
#include <variant>

#include "dsckpt/run_layout.h"
#include "io/directory.h"

namespace dsckpt::trajectory {

namespace {

constexpr uint64_t kFooterBytes = 128;
constexpr size_t kMaxAttributeBytes = 1024;

struct Part {
  uint32_t tensor = 0;
  PieceLocation at;
};

bool IsWhole(const OwnedPiece& piece, const TensorInfo& stored, const TensorRecord& record) {
  if (stored.dtype.code != record.dtype.code || stored.raw_bytes != record.bytes) return false;
  if (piece.element_offset != 0) return false;
  if (!std::ranges::equal(stored.shape, piece.logical_shape)) return false;
  if (piece.form == Piece::Form::kFlat) {
    const auto elements = ElementCount(piece.logical_shape);
    return elements.ok() && piece.flat == Range{0, static_cast<int64_t>(*elements)};
  }
  for (size_t i = 0; i < piece.box.size(); ++i) {
    if (piece.box[i] != Range{0, piece.logical_shape[i]}) return false;
  }
  return true;
}

/// Says which elements a piece holds, so that digests of pieces are compared part by part.
std::string PieceText(const OwnedPiece& piece) {
  const auto text = [](Range range) {
    return std::to_string(range.begin) + ":" + std::to_string(range.end) + ",";
  };
  std::string out = piece.form == Piece::Form::kBox ? "box " : "flat ";
  if (piece.form == Piece::Form::kFlat) return out + text(piece.flat);
  for (const Range& range : piece.box) out += text(range);
  return out;
}

/// Puts together what the shards say of one tensor.
struct Gathered {
  std::vector<NamedDigest> pieces;
  bool all_have_digests = true;
};

void Gather(const File& file, const Part& part, TensorRecord& record, Gathered& gathered) {
  if (part.at.tensor >= file.tensor_count()) {
    gathered.all_have_digests = false;
    return;
  }
  const TensorInfo stored = file.tensor(part.at.tensor);
  const auto digest = file.Digest(stored);
  if (IsWhole(part.at.piece, stored, record)) {
    if (digest && record.cell.kind != DigestKind::kWhole) {
      record.cell.kind = DigestKind::kWhole;
      record.cell.digest = *digest;
      record.cell.statistics = file.Statistics(stored);
    }
    return;
  }
  // Where other tensors share the stored one, its digest changes with them.
  const bool alone = file.Pieces(stored).size() == 1;
  gathered.all_have_digests = gathered.all_have_digests && digest.has_value() && alone;
  if (digest) gathered.pieces.push_back({PieceText(part.at.piece), *digest});
}

uint64_t BytesRead(const File& file, uint64_t index_bytes) {
  uint64_t front = file.file_bytes();
  for (uint32_t i = 0; i < file.tensor_count(); ++i) front = std::min(front, file.tensor(i).offset);
  for (uint32_t i = 0; i < file.object_count(); ++i) front = std::min(front, file.object(i).offset);
  const bool shard = file.format() == FileFormat::kDsckpt;
  return front + (shard ? index_bytes + kFooterBytes : 0);
}

uint64_t BytesOf(const std::string& path) {
  const auto bytes = io::FileBytes(path);
  return bytes.ok() ? *bytes : 0;
}

uint64_t ManifestBytes(const Checkpoint& checkpoint) {
  if (!checkpoint.has_manifest()) return 0;
  const std::string prefix = checkpoint.path() + "/";
  uint64_t bytes = BytesOf(prefix + std::string(kManifestName));
  for (uint32_t i = 0; i < checkpoint.manifest_parts(); ++i) {
    bytes += BytesOf(prefix + ManifestPartName(i));
  }
  return bytes;
}

bool IsSmall(const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return text->size() <= kMaxAttributeBytes;
  }
  return !std::holds_alternative<std::vector<std::byte>>(value) &&
         !std::holds_alternative<BigInt>(value);
}

std::vector<std::pair<std::string, Value>> AttributesOf(const File& file) {
  std::map<std::string, Value> found;
  if (file.format() == FileFormat::kSafetensors) {
    auto metadata = file.Metadata();
    if (!metadata.ok()) return {};
    for (auto& [key, text] : *metadata) {
      if (text.size() <= kMaxAttributeBytes) found.emplace(key, Value(std::move(text)));
    }
  } else if (const auto attributes = file.attributes()) {
    for (const Node& node : *attributes) {
      if (node.is_container() || node.key().kind() != Key::Kind::kString) continue;
      Value value = node.value();
      if (IsSmall(value)) found.emplace(node.key().text(), std::move(value));
    }
  }
  return {found.begin(), found.end()};
}

/// Digests of what one file stores, by the rank that wrote it. False: one of them is missing.
bool AppendStored(const File& file, uint32_t rank, std::vector<NamedDigest>& stored) {
  const std::string prefix = std::to_string(rank) + "/";
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const auto digest = file.Digest(file.tensor(i));
    if (!digest) return false;
    stored.push_back({prefix + std::string(file.tensor(i).name), *digest});
  }
  return true;
}

/// By shard, so that each is opened once.
std::vector<std::vector<Part>> PartsByShard(const Checkpoint& checkpoint) {
  std::vector<std::vector<Part>> parts(checkpoint.shard_count());
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    for (PieceLocation& at : checkpoint.Pieces(i)) {
      parts[at.shard].push_back({i, std::move(at)});
    }
  }
  return parts;
}

void FinishDigests(IndexRecord& record, std::vector<Gathered>& gathered) {
  std::vector<NamedDigest> tree;
  for (size_t i = 0; i < record.tensors.size(); ++i) {
    TensorRecord& tensor = record.tensors[i];
    if (tensor.cell.kind == DigestKind::kWhole) tree.push_back({tensor.name, tensor.cell.digest});
    if (tensor.cell.kind != DigestKind::kNone || gathered[i].pieces.empty()) continue;
    if (!gathered[i].all_have_digests) continue;
    tensor.cell.kind = DigestKind::kPieces;
    tensor.cell.digest = dsckpt::TreeDigest(std::move(gathered[i].pieces));
  }
  if (tree.size() != record.tensors.size()) return;
  record.tree_digest = dsckpt::TreeDigest(std::move(tree));
}

}  // namespace

Result<IndexRecord> ReadIndex(const Checkpoint& checkpoint) {
  IndexRecord record;
  record.bytes_read = ManifestBytes(checkpoint);
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const LogicalTensorInfo info = checkpoint.tensor(i);
    record.tensors.push_back({std::string(info.name),
                              info.dtype,
                              {info.shape.begin(), info.shape.end()},
                              info.bytes,
                              {}});
  }
  std::vector<Gathered> gathered(record.tensors.size());
  const auto parts = PartsByShard(checkpoint);
  std::vector<NamedDigest> stored;
  bool all_stored = true;
  for (uint32_t shard = 0; shard < parts.size(); ++shard) {
    DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint.OpenShard(shard));
    record.bytes_read += BytesRead(file, checkpoint.shard(shard).index_bytes);
    if (shard == 0) record.attributes = AttributesOf(file);
    all_stored = all_stored && AppendStored(file, checkpoint.shard(shard).rank, stored);
    for (const Part& part : parts[shard]) {
      Gather(file, part, record.tensors[part.tensor], gathered[part.tensor]);
    }
  }
  FinishDigests(record, gathered);
  if (all_stored) record.stored_digest = dsckpt::TreeDigest(std::move(stored));
  return record;
}

}  // namespace dsckpt::trajectory

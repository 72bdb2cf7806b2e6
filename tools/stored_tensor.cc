#include "tools/stored_tensor.h"

#include <algorithm>
#include <utility>

#include "merge/paths.h"
#include "tools/operand.h"

namespace dsckpt::tools {
namespace {

constexpr uint64_t kPartBytes = 8 << 20;

uint64_t Elements(const std::vector<Range>& box) {
  uint64_t count = 1;
  for (const Range& range : box) count *= static_cast<uint64_t>(range.end - range.begin);
  return count;
}

using ReadPart = std::function<Status(const std::vector<Range>& box, std::span<std::byte> out)>;

/// Halves the outermost dimension that can be halved: the parts come in row-major order.
Status InParts(const std::vector<Range>& box, uint64_t element_bytes, std::vector<std::byte>& room,
               const ReadPart& read, const StoredTensor::Take& take) {
  const uint64_t bytes = Elements(box) * element_bytes;
  if (bytes == 0) return {};
  const auto wide = std::find_if(box.begin(), box.end(),
                                 [](const Range& range) { return range.end - range.begin > 1; });
  if (bytes <= kPartBytes || wide == box.end()) {
    room.resize(bytes);
    DSCKPT_RETURN_IF_ERROR(read(box, room));
    return take(room);
  }
  const auto dim = static_cast<size_t>(wide - box.begin());
  const int64_t middle = wide->begin + (wide->end - wide->begin) / 2;
  std::vector<Range> half = box;
  half[dim].end = middle;
  DSCKPT_RETURN_IF_ERROR(InParts(half, element_bytes, room, read, take));
  half[dim] = {middle, box[dim].end};
  return InParts(half, element_bytes, room, read, take);
}

}  // namespace

Result<Store> Store::Open(Console& console, const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(const Operand operand, ToOperand(path));
  Store store;
  if (operand.kind == OperandKind::kFile) {
    DSCKPT_ASSIGN_OR_RETURN(store.file, File::Open(operand.path, {.map = false}));
    return store;
  }
  DSCKPT_ASSIGN_OR_RETURN(Inputs inputs, OpenInputs(console, {path}));
  store.checkpoint = std::move(inputs.checkpoint);
  return store;
}

Result<StoredTensor> StoredTensor::Find(const Store& store, const std::string& name) {
  StoredTensor tensor;
  tensor.name_ = name;
  const auto fill = [&](const auto& info, uint64_t bytes) {
    tensor.dtype_ = info.dtype;
    tensor.shape_.assign(info.shape.begin(), info.shape.end());
    tensor.bytes_ = bytes;
  };
  if (store.file) {
    DSCKPT_ASSIGN_OR_RETURN(const TensorInfo info, store.file->FindTensor(name));
    fill(info, info.raw_bytes);
    tensor.file_ = store.file;
  } else {
    DSCKPT_ASSIGN_OR_RETURN(const LogicalTensorInfo info, store.checkpoint.FindTensor(name));
    fill(info, info.bytes);
    tensor.checkpoint_ = store.checkpoint;
  }
  return tensor;
}

Status StoredTensor::ReadBox(const std::vector<Range>& box, const Take& take) const {
  std::vector<std::byte> room;
  const auto read = [&](const std::vector<Range>& part, std::span<std::byte> out) -> Status {
    if (file_) return file_->ReadSlice(name_, part, out);
    return checkpoint_.Read(BoxRequest{.name = name_, .box = part, .out = out});
  };
  return InParts(box, dtype_.block_bytes, room, read, take);
}

Status StoredTensor::ReadAll(const Take& take) const {
  if (!packed()) {
    std::vector<Range> box;
    for (const int64_t size : shape_) box.push_back({0, size});
    return ReadBox(box, take);
  }
  if (file_) {
    DSCKPT_ASSIGN_OR_RETURN(const Tensor tensor, file_->View(name_));
    return take(tensor.bytes());
  }
  DSCKPT_ASSIGN_OR_RETURN(const LogicalTensorInfo info, checkpoint_.FindTensor(name_));
  std::vector<std::byte> room;
  for (uint64_t at = 0; at < bytes_; at += room.size()) {
    room.resize(std::min(kPartBytes, bytes_ - at));
    DSCKPT_RETURN_IF_ERROR(checkpoint_.ReadBytes(info.ordinal, at, room));
    DSCKPT_RETURN_IF_ERROR(take(room));
  }
  return {};
}

}  // namespace dsckpt::tools

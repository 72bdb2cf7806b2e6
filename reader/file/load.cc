// File::Load: reads many tensors into the memory of a caller.

#include <algorithm>
#include <string>
#include <vector>

#include "reader/chunk/device_load.h"
#include "reader/chunk/reader.h"
#include "reader/file/file_impl.h"

namespace dsckpt {

namespace {

using reader::ChunkPlan;
using reader::Destination;
using reader::StoredItem;

/// A request, checked and resolved.
struct LoadTarget {
  uint64_t offset;  // of the tensor in the file
  uint32_t tensor;
  uint32_t request;
};

Status Refused(const StoredItem& item, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, item.Title() + ": " + why);
}

Status CheckContiguous(const StoredItem& item, const LoadRequest& request) {
  if (request.bytes == item.raw_bytes) return Status();
  return Refused(item, "it has " + std::to_string(item.raw_bytes) +
                           " bytes, but the destination has " + std::to_string(request.bytes));
}

/// Bytes from the first element to the end of the farthest one after it; saturates.
uint64_t StridedReach(const TensorInfo& info, std::span<const int64_t> strides) {
  uint64_t last = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    uint64_t reach = 0;
    if (strides[i] <= 0) continue;
    if (__builtin_mul_overflow(static_cast<uint64_t>(info.shape[i] - 1),
                               static_cast<uint64_t>(strides[i]), &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return ~uint64_t{0};
    }
  }
  uint64_t bytes = 0;
  if (last == ~uint64_t{0} || __builtin_mul_overflow(last + 1, info.dtype.block_bytes, &bytes)) {
    return ~uint64_t{0};
  }
  return bytes;
}

Status CheckStrided(const StoredItem& item, const TensorInfo& info, const LoadRequest& request) {
  if (request.strides.size() != info.shape.size()) {
    return Refused(item, "it has " + std::to_string(info.shape.size()) +
                             " dimensions, but the destination has " +
                             std::to_string(request.strides.size()) + " strides");
  }
  if (IsContiguous(info.shape, request.strides)) {
    if (request.bytes >= item.raw_bytes) return Status();
    return CheckContiguous(item, request);
  }
  if (info.dtype.block_elements != 1) {
    return Refused(item, "dtype " + std::string(info.dtype.name) +
                             " has no addressable elements: the destination must be contiguous");
  }
  if (item.raw_bytes == 0) return Status();
  if (const uint64_t reach = StridedReach(info, request.strides); reach > request.bytes) {
    return Refused(item, "its strides reach " + std::to_string(reach) +
                             " bytes, but the destination has " + std::to_string(request.bytes));
  }
  return Status();
}

Status CheckRequest(const File::Impl& impl, uint32_t tensor, const LoadRequest& request) {
  DSCKPT_ASSIGN_OR_RETURN(const StoredItem item, impl.ReadableTensor(tensor));
  if (request.data == nullptr && item.raw_bytes > 0) return Refused(item, "no destination");
  if (request.strides.empty()) return CheckContiguous(item, request);
  if (request.device != kHostMemory) {
    return Refused(item, "device memory must be contiguous: give no strides");
  }
  return CheckStrided(item, impl.Info(tensor), request);
}

/// All requests in file order; requests for one tensor stand together.
Result<std::vector<LoadTarget>> Resolve(const File::Impl& impl,
                                        std::span<const LoadRequest> requests) {
  std::vector<LoadTarget> targets;
  targets.reserve(requests.size());
  uint32_t hint = 0;
  for (const LoadRequest& request : requests) {
    DSCKPT_ASSIGN_OR_RETURN(const uint32_t tensor, impl.TensorOrdinal(request.name, hint));
    DSCKPT_RETURN_IF_ERROR(CheckRequest(impl, tensor, request));
    hint = tensor + 1;
    if (impl.index.tensors.raw_bytes[tensor] == 0) continue;
    targets.push_back({impl.index.tensors.offset[tensor], tensor,
                       static_cast<uint32_t>(&request - requests.data())});
  }
  std::sort(targets.begin(), targets.end(),
            [](const LoadTarget& a, const LoadTarget& b) { return a.offset < b.offset; });
  return targets;
}

Destination DestinationOf(const File::Impl& impl, uint32_t tensor, const LoadRequest& request) {
  Destination to{static_cast<std::byte*>(request.data), std::nullopt};
  const auto shape = impl.index.shape(tensor);
  if (!request.strides.empty() && !IsContiguous(shape, request.strides)) {
    to.strided = StridedView{to.data, impl.dtypes[impl.index.tensor_dtype[tensor]].block_bytes,
                             impl.index.shape(tensor), request.strides};
  }
  return to;
}

Status LoadTargets(const File::Impl& impl, std::span<const LoadRequest> requests,
                   std::span<const LoadTarget> targets, bool verify, reader::DeviceLoad* devices) {
  ChunkPlan plan;
  plan.spans.reserve(targets.size());
  plan.chunks.reserve(targets.size());
  for (uint32_t i = 0; i < targets.size(); ++i) {
    // One read serves all requests for a tensor.
    if (i > 0 && targets[i].tensor == targets[i - 1].tensor) continue;
    plan.Append(reader::TensorItem(impl.index, targets[i].tensor), i);
  }
  reader::ScratchPool scratch;
  return reader::ReadChunks(
      *impl.input, plan, impl.threads,
      [&](reader::ChunkRef ref, std::span<const std::byte> stored) {
        const uint32_t tensor = targets[ref.item].tensor;
        const StoredItem item = reader::TensorItem(impl.index, tensor);
        reader::ScratchPool::Lease lease(scratch);
        for (size_t i = ref.item; i < targets.size() && targets[i].tensor == tensor; ++i) {
          const uint32_t request = targets[i].request;
          if (requests[request].device != kHostMemory) {
            DSCKPT_RETURN_IF_ERROR(
                devices->PlaceChunk(item, ref.chunk, stored, request, verify, *lease));
            continue;
          }
          const Destination to = DestinationOf(impl, tensor, requests[request]);
          DSCKPT_RETURN_IF_ERROR(reader::PlaceChunk(item, ref.chunk, stored, to, verify, *lease));
        }
        return Status();
      },
      devices);
}

Status LoadAll(const File::Impl& impl, std::span<const LoadRequest> requests,
               const LoadOptions& options) {
  if (requests.size() > kMaxItems) {
    return Status(StatusCode::kLimitExceeded,
                  std::to_string(requests.size()) + " load requests in one call");
  }
  DSCKPT_ASSIGN_OR_RETURN(const std::vector<LoadTarget> targets, Resolve(impl, requests));
  DSCKPT_ASSIGN_OR_RETURN(const auto devices, reader::DeviceLoad::Begin(requests));
  return LoadTargets(impl, requests, targets, options.verify, devices.get());
}

}  // namespace

Status File::Load(std::span<const LoadRequest> requests, const LoadOptions& options) const {
  return reader::InFile(LoadAll(*impl_, requests, options), *impl_->input);
}

}  // namespace dsckpt

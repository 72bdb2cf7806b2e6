#include "format/header/from_index.h"

#include <algorithm>
#include <map>

#include "dsckpt/dtype.h"
#include "dsckpt/limits.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

// A member for each alias, as stock tools record ties. Those that would mean something else to them
// are left out: a shard's index has the names all the same.
Result<Metadata> AliasMembers(const IndexView& index, bool shard, const Metadata& producer) {
  std::map<std::string_view, std::string_view> given;
  for (const auto& [key, value] : producer) given.emplace(key, value);
  Metadata members;
  for (uint32_t i = 0; i < index.alias_names.size(); ++i) {
    const std::string_view name = index.alias_names[i];
    const std::string_view target = index.tensor_names[index.alias_target[i]];
    const auto tied = [&] {
      return "tensor '" + Printable(name) + "' is tied to '" + Printable(target) + "' and named ";
    };
    if (IsReservedMember(name)) {
      if (shard) continue;
      return Status(StatusCode::kUnsupported,
                    tied() +
                        "as a metadata member of the format, so plain safetensors cannot express "
                        "it: rename it, or save a dsckpt shard");
    }
    const auto member = given.find(name);
    if (member == given.end()) {
      members.emplace_back(name, target);
    } else if (member->second != target) {
      return Status(shard ? StatusCode::kInvalidArgument : StatusCode::kUnsupported,
                    tied() +
                        "like a member of the metadata, which would hide that from other "
                        "tools: rename the tensor or the member");
    }
  }
  return members;
}

Result<std::string> TryHeader(const IndexView& index, std::span<const uint32_t> listed, bool shard,
                              const Metadata& metadata, bool* lists) {
  HeaderBuilder builder(shard, metadata);
  uint64_t begin = 0;
  for (const uint32_t tensor : listed) {
    const uint64_t end = begin + index.tensors.raw_bytes[tensor];
    const DType dtype{index.dtypes[index.tensor_dtype[tensor]].code};
    builder.Add(index.tensor_names[tensor], FindDType(dtype)->name, index.shape(tensor), begin,
                end);
    begin = end;
  }
  return builder.Finish(lists);
}

}  // namespace

bool IsReservedMember(std::string_view key) {
  return key == "format" || key.starts_with(kOwnMemberPrefix);
}

std::vector<uint32_t> ListedTensors(const IndexView& index) {
  std::vector<bool> listable;
  for (const DTypeRecord& dtype : index.dtypes) {
    const auto known = FindDType(DType{dtype.code});
    listable.push_back(known && known->listable);
  }
  std::vector<uint32_t> listed;
  for (uint32_t i = 0; i < index.tensor_names.size(); ++i) {
    const bool raw = index.tensors.encoding[i] == static_cast<uint8_t>(Encoding::kRaw);
    if (raw && listable[index.tensor_dtype[i]]) listed.push_back(i);
  }
  // Where several begin, all but the last are empty.
  const auto& offset = index.tensors.offset;
  const auto& bytes = index.tensors.raw_bytes;
  std::stable_sort(listed.begin(), listed.end(), [&](uint32_t a, uint32_t b) {
    return offset[a] != offset[b] ? offset[a] < offset[b] : bytes[a] < bytes[b];
  });
  return listed;
}

Result<std::string> HeaderOfIndex(const IndexView& index, std::span<const uint32_t> listed,
                                  bool shard, const Metadata& producer, bool* lists) {
  DSCKPT_ASSIGN_OR_RETURN(Metadata metadata, AliasMembers(index, shard, producer));
  const bool aliases = !metadata.empty();
  metadata.insert(metadata.end(), producer.begin(), producer.end());
  Result<std::string> header = TryHeader(index, listed, shard, metadata, lists);
  // Aliases that push the header over its cap are of no use to stock loaders; the index has them.
  if (!(header.ok() && *lists) && aliases && shard) {
    header = TryHeader(index, listed, shard, producer, lists);
  }
  return header;
}

}  // namespace dsckpt::format

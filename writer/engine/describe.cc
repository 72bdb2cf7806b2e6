#include "writer/engine/describe.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/unicode.h"
#include "dsckpt/limits.h"
#include "format/header/header.h"
#include "format/index/index.h"
#include "format/names.h"
#include "io/device.h"

namespace dsckpt {
namespace {

/// What is wrong with a metadata member; empty: nothing.
std::string_view Objection(const format::Metadata::value_type& member, bool twice) {
  if (twice) return "given twice, and a key stands for one value";
  if (!format::IsValidUtf8(member.first)) return "the key is not UTF-8";
  if (!format::IsValidUtf8(member.second)) return "the value is not UTF-8";
  if (!member.first.starts_with(kOwnMemberPrefix)) return {};
  return "keys that begin with 'dsckpt' are kept for this library: choose another key";
}

/// The safetensors metadata that the options ask for: `format` first, then the members by key.
Result<format::Metadata> HeaderMetadata(const SaveOptions& options) {
  format::Metadata members = options.metadata;
  std::sort(members.begin(), members.end());
  for (size_t i = 0; i < members.size(); ++i) {
    const auto objection = Objection(members[i], i > 0 && members[i - 1].first == members[i].first);
    if (!objection.empty()) {
      return Status(StatusCode::kInvalidArgument, "metadata member '" +
                                                      format::Printable(members[i].first) +
                                                      "': " + std::string(objection));
    }
  }
  if (!format::IsValidUtf8(options.metadata_format)) {
    return Status(StatusCode::kInvalidArgument, "SaveOptions::metadata_format is not UTF-8");
  }
  const auto own = std::find_if(members.begin(), members.end(),
                                [](const auto& member) { return member.first == "format"; });
  if (own == members.end()) {
    members.insert(members.begin(), {"format", options.metadata_format});
  } else {
    std::rotate(members.begin(), own, own + 1);
  }
  return members;
}

Status CheckVendor(const SaveOptions& options) {
  const auto bad = [](StatusCode code, std::string what) {
    return Status(code, "SaveOptions::vendor: " + std::move(what));
  };
  if (options.vendor.empty()) return Status();
  if (options.container != Container::kDsckpt) {
    return bad(StatusCode::kUnsupported, "plain safetensors has no place for it");
  }
  if (options.vendor.size() > kMaxVendors) {
    return bad(StatusCode::kLimitExceeded, std::to_string(options.vendor.size()) +
                                               " entries, at most " + std::to_string(kMaxVendors) +
                                               " are possible");
  }
  std::set<std::string_view> names;
  for (const auto& [name, data] : options.vendor) {
    if (!format::IsVendorName(name)) {
      return bad(
          StatusCode::kInvalidArgument,
          QuotedName(name) + " is no name: 1 to 255 bytes of UTF-8 without control characters");
    }
    if (!names.insert(name).second) {
      return bad(StatusCode::kInvalidArgument, QuotedName(name) + " is given twice");
    }
  }
  return Status();
}

/// That the index can hold what the options add, before anything is written.
Status CheckIndexSize(const SaveOptions& options, const FileLayout& layout) {
  if (options.vendor.empty()) return Status();
  uint64_t bytes = format::IndexBytesBound(layout.columns);
  for (const auto& [name, data] : options.vendor) bytes += name.size() + data.size();
  if (bytes <= kMaxIndexBytes) return Status();
  return Status(StatusCode::kLimitExceeded,
                "SaveOptions::vendor: the index would have " + std::to_string(bytes) +
                    " bytes, at most " + std::to_string(kMaxIndexBytes) +
                    " are possible: save large data as an object of the state");
}

Status CheckStatistics(const SaveOptions& options) {
  if (!options.statistics || options.container == Container::kDsckpt) return Status();
  return Status(StatusCode::kUnsupported,
                "SaveOptions::statistics: plain safetensors has no place for them");
}

/// Tied tensors are read once, so the strictest capture class among them holds for all.
void ShareCapture(const FileLayout& layout, Description::Data& data) {
  for (const AliasOrdinal i : PositionsOf(layout.aliases)) {
    const auto& alias = data.sources.tensors[layout.aliases[i]];
    auto& stored = data.sources.tensors[layout.tensors[layout.alias_target[i]]];
    if (alias.capture == Capture::kAtSave) stored.capture = Capture::kAtSave;
  }
}

/// Puts the device's ordinal where providers left it to the runtime to know.
Status ResolveDevices(Description::Data& data) {
  const bool open = std::any_of(data.sources.producers.begin(), data.sources.producers.end(),
                                [](const auto& p) { return p.device == kDeviceOfPointer; });
  if (!open) return Status();
  DSCKPT_ASSIGN_OR_RETURN(io::DeviceBackend* const backend, io::Devices());
  for (const SourceIndex i : PositionsOf(data.sources.tensors)) {
    auto& source = data.sources.tensors[i];
    if (!source.producer) continue;
    const auto [device, stream] = data.sources.ProducerOf(i);
    if (device != kDeviceOfPointer) continue;
    const auto found = backend->DeviceOf(source.data);
    if (!found.ok()) {
      return Status(found.status().code(), "tensor '" +
                                               format::Printable(data.identity.TensorName(i)) +
                                               "': " + found.status().message());
    }
    DSCKPT_ASSIGN_OR_RETURN(source.producer, AddProducer(data, {*found, stream}));
  }
  return Status();
}

}  // namespace

std::vector<std::shared_ptr<const void>> LaidOutState::TakeOwners() {
  return std::exchange(description.data().sources.owners, {});
}

void LaidOutState::DropSources() {
  Description::Data& data = description.data();
  data.sources.owners = {};
  data.sources.readers = {};
  data.sources.objects = {};
  data.attribute_restores = {};
}

Result<std::shared_ptr<LaidOutState>> Describe(const StateProvider& provider,
                                               const SaveOptions& options,
                                               const LaidOutState* cached) {
  DSCKPT_ASSIGN_OR_RETURN(const auto metadata, HeaderMetadata(options));
  DSCKPT_RETURN_IF_ERROR(CheckVendor(options));
  DSCKPT_RETURN_IF_ERROR(CheckStatistics(options));
  const bool shard = options.container == Container::kDsckpt;
  auto state = std::make_shared<LaidOutState>();
  provider.Describe(state->description);
  DSCKPT_RETURN_IF_ERROR(state->description.status());
  DSCKPT_RETURN_IF_ERROR(ResolveDevices(state->description.data()));
  const auto& data = std::as_const(*state).data();
  if (cached != nullptr &&
      FileLayoutHolds(*cached->layout, cached->data(), data, shard, metadata)) {
    state->layout = cached->layout;
  } else {
    DSCKPT_ASSIGN_OR_RETURN(auto layout, BuildFileLayout(data, shard, metadata));
    state->layout = std::make_shared<const FileLayout>(std::move(layout));
  }
  DSCKPT_RETURN_IF_ERROR(CheckIndexSize(options, *state->layout));
  ShareCapture(*state->layout, state->description.data());
  return state;
}

}  // namespace dsckpt

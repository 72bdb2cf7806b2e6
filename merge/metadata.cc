#include "merge/metadata.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <variant>

#include "dsckpt/limits.h"
#include "merge/number_text.h"
#include "merge/tree.h"

namespace dsckpt::merge {

namespace {

constexpr std::string_view kFormat = "format";
// What the Python package keeps for itself: how the outermost container is rebuilt.
constexpr std::string_view kPackageAttributes = "py.";

bool IsOwn(std::string_view key) { return key.starts_with(kOwnMemberPrefix); }

/// As other tools write such a value; nothing where they write none.
std::optional<std::string> AsMember(const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  if (const auto* const truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* const integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* const big = std::get_if<BigInt>(&value)) return BigIntText(*big);
  if (const auto* const number = std::get_if<double>(&value)) return DoubleText(*number);
  return std::nullopt;
}

/// What all inputs say; Checkpoint::step() reads the members of one file.
std::optional<int64_t> StepIn(const Members& members) {
  for (const auto& [key, value] : members) {
    int64_t step = 0;
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, step);
    if (key == "step" && read.ec == std::errc() && read.ptr == end && step >= 0) return step;
  }
  return std::nullopt;
}

Result<bool> AnyHasAttribute(const Checkpoint& checkpoint, const std::string& name) {
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    if (shard.Attribute(name).ok()) return true;
  }
  return false;
}

}  // namespace

Result<FileMetadata> ReadMetadata(const File& file) {
  FileMetadata read;
  DSCKPT_ASSIGN_OR_RETURN(auto metadata, file.Metadata());
  for (auto& [key, value] : metadata) {
    if (IsOwn(key)) continue;
    const Result<TensorInfo> owner = file.FindTensor(value);
    const Result<TensorInfo> named = file.FindTensor(key);
    // In shards aliases stand in the index too, so that the key is found.
    const bool alias = owner.ok() && named.ok() && named->name == value && key != value;
    if (alias) continue;
    if (file.format() == FileFormat::kSafetensors && key != kFormat && owner.ok() && !named.ok()) {
      read.ties.push_back({std::move(key), std::move(value)});
    } else {
      read.members.emplace_back(std::move(key), std::move(value));
    }
  }
  return read;
}

void Metadata::Add(const std::string& file, const Members& members) {
  for (const auto& [key, value] : members) Say(keys_, key, {file, value});
}

void Metadata::Say(Keys& keys, const std::string& key, Said said) {
  std::vector<Said>& all = keys[key];
  const bool known =
      std::any_of(all.begin(), all.end(), [&](const Said& s) { return s.value == said.value; });
  if (!known) all.push_back(std::move(said));
}

void Metadata::AddAttributes(const File& file) {
  const std::optional<Node> attributes = file.attributes();
  if (!attributes) return;
  for (const Node& attribute : *attributes) {
    const std::string key(attribute.key().text());
    if (key.starts_with(kPackageAttributes)) continue;
    const std::optional<std::string> text = AsMember(attribute.value());
    const auto there = keys_.find(key);
    const bool reserved = key == kFormat || IsOwn(key);
    if (text && there == keys_.end() && !reserved) {
      Say(attributes_, key, {file.path(), *text});
    } else if (!text || there == keys_.end() || there->second.size() != 1 ||
               there->second[0].value != *text) {
      left_out_attributes_.insert(key);
    }
  }
}

Status Metadata::Change(const std::vector<AttributeChange>& changes, bool as_members,
                        const Checkpoint& checkpoint) {
  for (const AttributeChange& change : changes) {
    if (as_members && change.value) {
      const std::optional<std::string> text = AsMember(*change.value);
      if (!text || IsOwn(change.name)) {
        return Status(StatusCode::kInvalidArgument,
                      "safetensors metadata cannot hold the attribute '" + change.name + "': " +
                          (text ? "dsckpt writes members of this name itself"
                                : "its value is neither text nor a number"));
      }
      left_out_attributes_.erase(change.name);
      attributes_.erase(change.name);
      keys_[change.name] = {{checkpoint.path(), *text}};
    }
    // An attribute and a member of one name would say different things.
    if (change.value && !as_members && change.name != kFormat) keys_.erase(change.name);
    if (change.value) continue;
    size_t gone = keys_.erase(change.name);
    if (as_members)
      gone += attributes_.erase(change.name) + left_out_attributes_.erase(change.name);
    DSCKPT_ASSIGN_OR_RETURN(const bool attribute, AnyHasAttribute(checkpoint, change.name));
    if (gone != 0 || attribute) continue;
    return Status(StatusCode::kNotFound, checkpoint.path() + " has no attribute and no metadata '" +
                                             change.name + "' that could be taken away")
        .WithPath(checkpoint.path());
  }
  return {};
}

uint64_t Metadata::lost_attributes() const {
  uint64_t lost = left_out_attributes_.size();
  for (const auto& [key, said] : attributes_) {
    if (said.size() > 1 && left_out_attributes_.count(key) == 0) ++lost;
  }
  return lost;
}

Members Metadata::members() const {
  Members members;
  for (const auto& [key, said] : keys_) {
    if (said.size() == 1) members.emplace_back(key, said[0].value);
  }
  for (const auto& [key, said] : attributes_) {
    // Another shard has a value there that is no text.
    if (said.size() != 1 || left_out_attributes_.count(key) != 0) continue;
    members.emplace_back(key, said[0].value);
  }
  return members;
}

std::vector<MergeConflict> Metadata::conflicts() const {
  std::vector<MergeConflict> conflicts;
  for (const auto& [key, said] : keys_) {
    if (said.size() > 1) conflicts.push_back({key, false, said});
  }
  for (const auto& [key, said] : attributes_) {
    if (said.size() > 1) conflicts.push_back({key, true, said});
  }
  return conflicts;
}

void Metadata::ApplyTo(SaveOptions& options) const {
  for (auto& [key, value] : members()) {
    if (key == kFormat) {
      options.metadata_format = value;
    } else {
      options.metadata.emplace_back(key, value);
    }
  }
}

Result<Metadata> MergeMetadata(const Checkpoint& checkpoint, const std::string& index,
                               const Members& index_members, bool verify) {
  Metadata metadata;
  metadata.Add(index, index_members);
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    Result<FileMetadata> read = ReadMetadata(shard);
    if (!read.ok()) {
      if (verify) return read.status();
      metadata.AddUnreadable(read.status());
      continue;
    }
    // A tie whose second name is a tensor of another file is no tie of the whole.
    for (const Tie& tie : read->ties) {
      if (checkpoint.FindTensor(tie.name).ok()) read->members.emplace_back(tie.name, tie.owner);
    }
    metadata.Add(shard.path(), read->members);
  }
  return metadata;
}

Result<std::optional<int64_t>> StepOfPlain(const Checkpoint& checkpoint, const Members& members) {
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    if (shard.format() != FileFormat::kSafetensors) return std::optional<int64_t>();
  }
  // Of several files the first one speaks for itself alone, and an index has a say of its own.
  if (const auto step = StepIn(members)) return step;
  if (checkpoint.shard_count() != 1 || checkpoint.step() == kUnknownStep) {
    return std::optional<int64_t>();
  }
  return std::optional(checkpoint.step());
}

Result<std::vector<std::string>> DifferingAttributes(const Checkpoint& checkpoint) {
  std::map<std::string, Value, std::less<>> first;
  std::set<std::string> differing;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    const std::optional<Node> attributes = shard.attributes();
    if (!attributes) continue;
    for (const Node& attribute : *attributes) {
      const std::string_view name = attribute.key().text();
      const auto there = first.find(name);
      if (there == first.end()) {
        first.emplace(name, attribute.value());
      } else if (!SameValue(there->second, attribute.value())) {
        differing.emplace(name);
      }
    }
  }
  return std::vector<std::string>(differing.begin(), differing.end());
}

}  // namespace dsckpt::merge

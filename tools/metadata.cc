#include "tools/metadata.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "dsckpt/limits.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"
#include "tools/value.h"

namespace dsckpt::tools {

namespace {

constexpr std::string_view kFormat = "format";
// What the Python package keeps for itself: how the outermost container is rebuilt.
constexpr std::string_view kPackageAttributes = "py.";
constexpr size_t kShownValues = 3;

bool IsOwn(std::string_view key) { return key.starts_with(kOwnMemberPrefix); }

/// As other tools write such a value; nothing where they write none.
std::optional<std::string> AsMember(const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  const bool plain = std::holds_alternative<bool>(value) ||
                     std::holds_alternative<int64_t>(value) ||
                     std::holds_alternative<BigInt>(value) || std::holds_alternative<double>(value);
  return plain ? std::optional(ValueText(value)) : std::nullopt;
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

std::vector<Metadata::Conflict> Metadata::conflicts() const {
  std::vector<Conflict> conflicts;
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

void Metadata::Report(Console& console) const {
  for (const Status& why : unreadable_) {
    console.Note("left out: metadata that cannot be read: " + Sentence(why));
  }
  for (const Conflict& conflict : conflicts()) {
    std::string text =
        Format("the inputs differ in the {} '{}', which is left out: ",
               conflict.attribute ? "attribute" : "metadata", Printable(conflict.key));
    const size_t shown = std::min(conflict.values.size(), kShownValues);
    for (size_t i = 0; i < shown; ++i) {
      const Said& said = conflict.values[i];
      text += Format("{}\"{}\" in {}", i == 0 ? "" : ", ", FitWidth(Printable(said.value), 100),
                     said.file);
    }
    if (shown < conflict.values.size()) {
      text += Format(" and {} more", conflict.values.size() - shown);
    }
    console.Note(text);
  }
}

void Metadata::ReportJson(JsonWriter& json) const {
  json.Key("conflicting_metadata").BeginArray(JsonWriter::Layout::kLines);
  for (const Conflict& conflict : conflicts()) {
    json.BeginObject();
    json.Key("key").String(conflict.key);
    json.Key("values").BeginArray();
    for (const Said& said : conflict.values) {
      json.BeginObject();
      json.Key("file").String(said.file);
      json.Key("value").String(said.value);
      json.End();
    }
    json.End();
    json.End();
  }
  json.End();
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

}  // namespace dsckpt::tools

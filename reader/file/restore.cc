// File::Restore: fills the memory that a provider describes with the items of one file, by name.

#include <string>
#include <utility>
#include <vector>

#include "reader/file/file_impl.h"
#include "reader/restore_match.h"
#include "state/description.h"

namespace dsckpt {

namespace {

/// Matches a description with a file: first everything is compared, then everything is moved.
class FileRestorer {
 public:
  FileRestorer(const File& file, const File::Impl& impl, const Description::Data& wanted)
      : file_(file), impl_(impl), wanted_(wanted), match_(wanted, "file") {}

  Status Match(bool partial) {
    MatchTensors();
    MatchObjects();
    MatchAttributes();
    return match_.Outcome(partial);
  }

  Status Move(const LoadOptions& options) const {
    DSCKPT_RETURN_IF_ERROR(file_.Load(requests_, options));
    return match_.Move();
  }

 private:
  void MatchTensors() {
    const format::IndexView& index = impl_.index;
    std::vector<bool> tensor_seen(index.tensor_names.size());
    std::vector<bool> alias_seen(index.alias_names.size());
    uint32_t hint = 0;
    for (uint32_t i = 0; i < wanted_.tensors.size(); ++i) {
      const std::string_view name = wanted_.tensor_names[i];
      const auto tensor = impl_.FindTensor(name, hint);
      if (!tensor) {
        match_.AddMissing(name);
        continue;
      }
      hint = *tensor + 1;
      if (index.tensor_names[*tensor] == name) {
        tensor_seen[*tensor] = true;
      } else if (const auto alias = index.alias_names.Find(name)) {
        alias_seen[*alias] = true;
      }
      const TensorInfo info = impl_.Info(*tensor);
      if (!match_.FitsTensor(i, name, match_.Shape(i), info.dtype.code, info.shape)) continue;
      if (match_.IsWritable(i)) AddRequest(i, name, info);
    }
    ListUnseen(index.tensor_names, tensor_seen);
    ListUnseen(index.alias_names, alias_seen);
  }

  void AddRequest(uint32_t i, std::string_view name, const TensorInfo& info) {
    const auto& source = wanted_.tensor_sources[i];
    LoadRequest request;
    request.name = name;
    request.data = const_cast<void*>(source.data);  // The provider declared it writable.
    request.bytes = info.raw_bytes;
    if (source.strides_begin != Description::Data::kContiguous) {
      request.strides = std::span(wanted_.strides).subspan(source.strides_begin, info.shape.size());
      request.bytes = ~uint64_t{0};  // Its memory spans whatever the provider's strides reach.
    }
    if (source.producer != 0) {
      const auto [device, stream] = wanted_.producers[source.producer - 1];
      request.device = device;
      request.stream = stream;
    }
    requests_.push_back(request);
  }

  void MatchObjects() {
    const format::IndexView& index = impl_.index;
    std::vector<bool> seen(index.object_names.size());
    for (uint32_t i = 0; i < wanted_.objects.size(); ++i) {  // Those that are not restored, too.
      if (const auto object = index.object_names.Find(wanted_.object_names[i])) {
        seen[*object] = true;
      }
    }
    match_.MatchObjects([&](std::string_view name) -> std::optional<reader::FoundObject> {
      const auto object = index.object_names.Find(name);
      if (object) return reader::FoundObject{&file_, file_.object(*object)};
      match_.AddMissing(name);
      return std::nullopt;
    });
    ListUnseen(index.object_names, seen);
  }

  void MatchAttributes() {
    match_.MatchAttributes([&](std::string_view name) -> std::optional<Value> {
      auto value = file_.Attribute(name);
      if (!value.ok()) return std::nullopt;
      return std::move(value).value();
    });
    const auto stored = file_.attributes();
    if (!stored) return;
    for (const Node& node : *stored) {
      bool wanted = false;
      for (uint32_t i = 0; i < wanted_.attribute_restores.size(); ++i) {
        wanted = wanted || node.key() == Key(reader::AttributeName(wanted_, i));
      }
      if (!wanted) match_.AddUnwanted(node.key().text());
    }
  }

  void ListUnseen(const format::NameView& names, const std::vector<bool>& seen) {
    for (uint32_t i = 0; i < names.size(); ++i) {
      if (!seen[i]) match_.AddUnwanted(names[i]);
    }
  }

  const File& file_;
  const File::Impl& impl_;
  const Description::Data& wanted_;
  reader::RestoreMatch match_;
  std::vector<LoadRequest> requests_;
};

}  // namespace

Status File::Restore(const StateProvider& provider, const RestoreOptions& options) const {
  Description description;
  provider.Describe(description);
  DSCKPT_RETURN_IF_ERROR(description.status());
  FileRestorer restorer(*this, *impl_, description.data());
  DSCKPT_RETURN_IF_ERROR(reader::InFile(restorer.Match(options.partial), *impl_->input));
  return reader::InFile(restorer.Move(options.load), *impl_->input);
}

}  // namespace dsckpt

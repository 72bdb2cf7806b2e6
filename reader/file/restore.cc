// A provider's memory from a file.

#include <string>
#include <utility>
#include <vector>

#include "reader/file/file_impl.h"
#include "reader/name_list.h"
#include "state/description.h"

namespace dsckpt {

namespace {

using reader::NameList;

std::string DTypeText(DType code) {
  const auto info = FindDType(code);
  return info ? std::string(info->name) : std::to_string(static_cast<unsigned>(code));
}

/// Matches a description with a file: first everything is compared, then everything is moved.
class Restorer {
 public:
  Restorer(const File& file, const File::Impl& impl, const Description::Data& wanted)
      : file_(file), impl_(impl), wanted_(wanted) {}

  Status Match(bool partial) {
    MatchTensors();
    MatchObjects();
    MatchAttributes();
    std::string message;
    different_.Say("different in file and state: ", message);
    if (!partial) {
      not_in_file_.Say("not in the file: ", message);
      not_in_state_.Say("only in the file: ", message);
    }
    if (message.empty()) return Status();
    return Status(StatusCode::kMismatch, "the file does not fit the state to restore: " + message);
  }

  Status Move(const LoadOptions& options) const {
    DSCKPT_RETURN_IF_ERROR(file_.Load(requests_, options));
    for (const auto& [position, name] : objects_) {
      DSCKPT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, file_.ReadObject(name));
      DSCKPT_RETURN_IF_ERROR(wanted_.sources.objects[ObjectIndex(position)].restore(bytes));
    }
    for (const auto& [position, value] : attributes_) {
      DSCKPT_RETURN_IF_ERROR(wanted_.attribute_restores[position](value));
    }
    return Status();
  }

 private:
  void MatchTensors() {
    const format::IndexView& index = impl_.index;
    std::vector<bool> tensor_seen(index.tensor_names.size());
    std::vector<bool> alias_seen(index.alias_names.size());
    uint32_t hint = 0;
    for (uint32_t i = 0; i < wanted_.identity.tensors.size(); ++i) {
      const std::string_view name = wanted_.identity.tensor_names[i];
      const auto tensor = impl_.FindTensor(name, hint);
      if (!tensor) {
        not_in_file_.Add(name);
        continue;
      }
      hint = *tensor + 1;
      if (index.tensor_names[*tensor] == name) {
        tensor_seen[*tensor] = true;
      } else if (const auto alias = index.alias_names.Find(name)) {
        alias_seen[*alias] = true;
      }
      MatchTensor(i, name, impl_.Info(*tensor));
    }
    ListUnseen(index.tensor_names, tensor_seen);
    ListUnseen(index.alias_names, alias_seen);
  }

  void MatchTensor(uint32_t i, std::string_view name, const TensorInfo& info) {
    const auto& source = wanted_.sources.tensors[SourceIndex(i)];
    const DType dtype = wanted_.identity.tensors[SourceIndex(i)].dtype;
    const auto shape = wanted_.Shape(SourceIndex(i));
    if (dtype != info.dtype.code) {
      different_.Add(name, "dtype " + DTypeText(info.dtype.code) + " and " + DTypeText(dtype));
    } else if (!std::equal(shape.begin(), shape.end(), info.shape.begin(), info.shape.end())) {
      different_.Add(name,
                     "shape " + reader::ShapeText(info.shape) + " and " + reader::ShapeText(shape));
    } else if (!source.writable) {
      different_.Add(name, "the state's memory is read-only");
    } else {
      AddRequest(i, name, info);
    }
  }

  void AddRequest(uint32_t i, std::string_view name, const TensorInfo& info) {
    const auto& source = wanted_.sources.tensors[SourceIndex(i)];
    LoadRequest request;
    request.name = name;
    request.data = const_cast<void*>(source.data);  // The provider declared it writable.
    request.bytes = info.raw_bytes;
    if (source.strides_begin != Description::Data::kContiguous) {
      request.strides =
          std::span(wanted_.sources.strides).subspan(source.strides_begin, info.shape.size());
      request.bytes = ~uint64_t{0};  // Its memory spans whatever the provider's strides reach.
    }
    if (source.producer) {
      const auto [device, stream] = wanted_.sources.producers[source.producer.value()];
      request.device = device;
      request.stream = stream;
    }
    requests_.push_back(request);
  }

  void MatchObjects() {
    const format::IndexView& index = impl_.index;
    std::vector<bool> seen(index.object_names.size());
    for (uint32_t i = 0; i < wanted_.identity.objects.size(); ++i) {
      const std::string_view name = wanted_.identity.object_names[i];
      const auto object = index.object_names.Find(name);
      if (!object) {
        not_in_file_.Add(name);
        continue;
      }
      seen[*object] = true;
      MatchObject(i, name, index.objects.raw_bytes[*object]);
    }
    ListUnseen(index.object_names, seen);
  }

  /// Memory of a fixed size must fit; what a callback streams may have any size.
  void MatchObject(uint32_t i, std::string_view name, uint64_t stored) {
    const auto& source = wanted_.sources.objects[ObjectIndex(i)];
    if (!source.restore) return;
    if (source.bytes != nullptr && source.size != stored) {
      different_.Add(name,
                     std::to_string(stored) + " and " + std::to_string(source.size) + " bytes");
    } else {
      objects_.emplace_back(i, name);
    }
  }

  void MatchAttributes() {
    const auto stored = file_.attributes();
    std::vector<bool> seen(stored ? stored->size() : 0);
    for (uint32_t i = 0; i < wanted_.attribute_restores.size(); ++i) {
      const std::string_view name = reader::AttributeName(wanted_, i);
      const bool found = FindAttribute(stored, name, i, seen);
      if (!found && wanted_.attribute_restores[i]) not_in_file_.Add(name);
    }
    ListUnseenAttributes(stored, seen);
  }

  bool FindAttribute(const std::optional<Node>& stored, std::string_view name, uint32_t position,
                     std::vector<bool>& seen) {
    if (!stored) return false;
    size_t child = 0;
    for (const Node& node : *stored) {
      if (node.key() == Key(name)) {
        seen[child] = true;
        if (wanted_.attribute_restores[position]) {
          attributes_.emplace_back(position, node.value());
        }
        return true;
      }
      ++child;
    }
    return false;
  }

  void ListUnseenAttributes(const std::optional<Node>& stored, const std::vector<bool>& seen) {
    if (!stored) return;
    size_t child = 0;
    for (const Node& node : *stored) {
      if (!seen[child++]) not_in_state_.Add(node.key().text());
    }
  }

  void ListUnseen(const format::NameView& names, const std::vector<bool>& seen) {
    for (uint32_t i = 0; i < names.size(); ++i) {
      if (!seen[i]) not_in_state_.Add(names[i]);
    }
  }

  const File& file_;
  const File::Impl& impl_;
  const Description::Data& wanted_;
  NameList different_, not_in_file_, not_in_state_;
  std::vector<LoadRequest> requests_;
  std::vector<std::pair<uint32_t, std::string_view>> objects_;
  std::vector<std::pair<uint32_t, Value>> attributes_;
};

}  // namespace

std::string_view reader::AttributeName(const Description::Data& description, uint32_t position) {
  // The root, then one leaf an attribute.
  const format::TreeColumns& attributes = description.attributes;
  return format::HeapText(attributes.heap, attributes.nodes[position + 1].key);
}

Status File::Restore(const StateProvider& provider, const RestoreOptions& options) const {
  Description description;
  provider.Describe(description);
  DSCKPT_RETURN_IF_ERROR(description.status());
  Restorer restorer(*this, *impl_, description.data());
  DSCKPT_RETURN_IF_ERROR(reader::InFile(restorer.Match(options.partial), *impl_->input));
  return reader::InFile(restorer.Move(options.load), *impl_->input);
}

}  // namespace dsckpt

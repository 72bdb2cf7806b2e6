#include <utility>

#include "dsckpt/provider.h"

namespace dsckpt {
namespace {

using Part = std::shared_ptr<const StateProvider>;

class GroupProvider final : public StateProvider {
 public:
  explicit GroupProvider(std::vector<Part> parts) : parts_(std::move(parts)) {}
  void Describe(Description& description) const override {
    for (const Part& part : parts_) part->Describe(description);
  }

 private:
  std::vector<Part> parts_;
};

class PrefixProvider final : public StateProvider {
 public:
  PrefixProvider(std::string key, Part part) : key_(std::move(key)), part_(std::move(part)) {}
  void Describe(Description& description) const override {
    description.Begin(NodeKind::kDict, key_);
    part_->Describe(description);
    description.End();
  }

 private:
  std::string key_;
  Part part_;
};

class EncodingProvider final : public StateProvider {
 public:
  EncodingProvider(Encoding encoding, Part part) : encoding_(encoding), part_(std::move(part)) {}
  void Describe(Description& description) const override {
    const Encoding before = description.SetDefaultEncoding(encoding_);
    part_->Describe(description);
    (void)description.SetDefaultEncoding(before);
  }

 private:
  Encoding encoding_;
  Part part_;
};

class FunctionProvider final : public StateProvider {
 public:
  explicit FunctionProvider(std::function<void(Description&)> describe)
      : describe_(std::move(describe)) {}
  void Describe(Description& description) const override { describe_(description); }

 private:
  std::function<void(Description&)> describe_;
};

}  // namespace

std::unique_ptr<StateProvider> Group(std::vector<Part> parts) {
  return std::make_unique<GroupProvider>(std::move(parts));
}

std::unique_ptr<StateProvider> WithPrefix(std::string key, Part part) {
  return std::make_unique<PrefixProvider>(std::move(key), std::move(part));
}

std::unique_ptr<StateProvider> WithEncoding(Encoding encoding, Part part) {
  return std::make_unique<EncodingProvider>(encoding, std::move(part));
}

std::unique_ptr<StateProvider> MakeProvider(std::function<void(Description&)> describe) {
  return std::make_unique<FunctionProvider>(std::move(describe));
}

}  // namespace dsckpt

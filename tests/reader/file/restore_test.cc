#include <functional>
#include <string>
#include <vector>

#include "tests/reader/file/samples.h"
#include "tests/support/catch.h"

namespace {

using dsckpt::Description;
using dsckpt::DType;
using dsckpt::File;
using dsckpt::StatusCode;
using dsckpt::Value;

class FunctionProvider : public dsckpt::StateProvider {
 public:
  explicit FunctionProvider(std::function<void(Description&)> describe)
      : describe_(std::move(describe)) {}
  void Describe(Description& description) const override { describe_(description); }

 private:
  std::function<void(Description&)> describe_;
};

/// A trainer's state: what it saves and, zeroed, what it restores into.
struct Trainer {
  std::vector<float> weights = std::vector<float>(6);
  std::vector<float> tied;  // Empty: shares `weights`.
  std::string rng = std::string(5, '\0');
  std::string streamed;
  int64_t step = 0;
  int attribute_calls = 0;
  bool writable = true;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {2, 3};

  void Describe(Description& d) {
    dsckpt::TensorSource source;
    source.data = weights.data();
    source.dtype = dtype;
    source.shape = shape;
    source.writable = writable;
    d.Tensor("embed", source);
    if (!tied.empty()) source.data = tied.data();
    d.Tensor("head", source);
    dsckpt::ObjectSource object;
    object.bytes = rng.data();
    object.size = rng.size();
    object.restore = [this](std::span<const std::byte> bytes) {
      rng = Text(bytes);
      return dsckpt::Status();
    };
    d.Object("rng", object);
    dsckpt::ObjectSource sink;
    sink.write = [](dsckpt::Sink&) { return dsckpt::Status(); };
    sink.restore = [this](std::span<const std::byte> bytes) {
      streamed = Text(bytes);
      return dsckpt::Status();
    };
    if (restore_stream) d.Object("stream", sink);
    d.Attribute("step", Value(step), [this](const Value& value) {
      ++attribute_calls;
      step = std::get<int64_t>(value);
      return dsckpt::Status();
    });
  }
  bool restore_stream = true;
};

/// A file with the trainer's names, built from other memory.
File Saved(bool with_extra = false) {
  static const float weights[] = {1, 2, 3, 4, 5, 6};
  ShardBuilder builder;
  const auto shard = builder.Build([&](Description& d) {
    const int64_t shape[] = {2, 3};
    dsckpt::TensorSource source;
    source.data = weights;
    source.dtype = DType::kF32;
    source.shape = shape;
    d.Tensor("embed", source);
    d.Tensor("head", source);
    dsckpt::ObjectSource object;
    object.bytes = "12345";
    object.size = 5;
    d.Object("rng", object);
    object.size = 3;
    d.Object("stream", object);
    d.Attribute("step", Value(int64_t{7}));
    if (with_extra) {
      static const float other = 9;  // Read after this function has returned.
      source.data = &other;
      source.shape = std::span(shape, 0);
      d.Tensor("extra", source);
    }
  });
  return File::Open(std::make_shared<StringSource>(shard.value())).value();
}

dsckpt::Status Restore(const File& file, Trainer& trainer, bool partial = false) {
  dsckpt::RestoreOptions options;
  options.partial = partial;
  return file.Restore(FunctionProvider([&](Description& d) { trainer.Describe(d); }), options);
}

const std::vector<float> kWeights = {1, 2, 3, 4, 5, 6};

}  // namespace

TEST_CASE("restore puts tensors, objects and attributes back in place") {
  const File file = Saved();
  REQUIRE(file.alias_count() == 1);
  Trainer trainer;
  REQUIRE(Restore(file, trainer).ok());
  CHECK(trainer.weights == kWeights);
  CHECK(trainer.rng == "12345");
  CHECK(trainer.streamed == "123");
  CHECK(trainer.step == 7);
  CHECK(trainer.attribute_calls == 1);
}

TEST_CASE("restore fills both of two tensors that were tied when saved") {
  Trainer trainer;
  trainer.tied.resize(6);
  REQUIRE(Restore(Saved(), trainer).ok());
  CHECK(trainer.weights == kWeights);
  CHECK(trainer.tied == kWeights);
}

TEST_CASE("restore scatters into strided memory") {
  std::vector<float> columns(6);
  const int64_t shape[] = {2, 3};
  const int64_t strides[] = {1, 2};
  const FunctionProvider provider([&](Description& d) {
    dsckpt::TensorSource source;
    source.data = columns.data();
    source.dtype = DType::kF32;
    source.shape = shape;
    source.strides = strides;
    source.writable = true;
    d.Tensor("embed", source);
  });
  dsckpt::RestoreOptions options;
  options.partial = true;
  REQUIRE(Saved().Restore(provider, options).ok());
  CHECK(columns == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("a restore that does not fit writes nothing and says why") {
  struct Case {
    std::function<void(Trainer&)> change;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {[](Trainer& t) { t.dtype = DType::kI32; }, {"'embed'", "F32", "I32"}},
      {[](Trainer& t) {
         t.shape = {3, 2};
       },
       {"'embed'", "[2, 3]", "[3, 2]"}},
      {[](Trainer& t) { t.writable = false; }, {"'head'", "read-only"}},
      {[](Trainer& t) { t.rng.resize(4); }, {"'rng'", "5 and 4 bytes"}},
      {[](Trainer& t) { t.restore_stream = false; }, {"only in the file: 'stream'"}},
  };
  const File file = Saved();
  for (const Case& c : cases) {
    Trainer trainer;
    c.change(trainer);
    const dsckpt::Status status = Restore(file, trainer);
    CHECK(status.code() == StatusCode::kMismatch);
    for (const std::string& word : c.words) {
      CAPTURE(word, status.message());
      CHECK(status.message().find(word) != std::string::npos);
    }
    CHECK(trainer.weights == std::vector<float>(6));
    CHECK(trainer.step == 0);
    CHECK(trainer.attribute_calls == 0);
  }
}

TEST_CASE("names of one side alone fail a restore unless it is partial") {
  Trainer trainer;
  const File extra = Saved(true);
  const dsckpt::Status status = Restore(extra, trainer);
  CHECK(status.code() == StatusCode::kMismatch);
  CHECK(status.message().find("only in the file: 'extra'") != std::string::npos);
  REQUIRE(Restore(extra, trainer, true).ok());
  CHECK(trainer.weights == kWeights);

  const FunctionProvider provider([&](Description& d) {
    trainer.Describe(d);
    const int64_t shape[] = {0};
    dsckpt::TensorSource source;
    source.shape = shape;
    for (int i = 0; i < 12; ++i) d.Tensor(dsckpt::Key("new" + std::to_string(i)), source);
    d.Attribute("lr", Value(0.5), [](const Value&) { return dsckpt::Status(); });
  });
  const dsckpt::Status missing = Saved().Restore(provider);
  CHECK(missing.code() == StatusCode::kMismatch);
  CHECK(missing.message().find("'new9' and 3 more") != std::string::npos);
}

TEST_CASE("an error of a restore callback is returned") {
  const FunctionProvider provider([&](Description& d) {
    d.Attribute("step", Value(int64_t{0}), [](const Value&) {
      return dsckpt::Status(StatusCode::kFailedPrecondition, "not now");
    });
  });
  dsckpt::RestoreOptions options;
  options.partial = true;
  CHECK(Saved().Restore(provider, options).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("an error of the description is returned") {
  const FunctionProvider provider(
      [](Description& d) { d.Fail(dsckpt::Status(StatusCode::kInvalidArgument, "no state")); });
  CHECK(Saved().Restore(provider).code() == StatusCode::kInvalidArgument);
}

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

std::byte At(uint64_t position) { return static_cast<std::byte>(position * 131 >> 7); }

/// A tensor of `bytes` bytes that exists nowhere: its bytes are computed when asked for.
TensorSource Computed(const void* token, std::span<const int64_t> shape, Encoding encoding) {
  TensorSource source;
  source.data = token;
  source.dtype = DType::kU8;
  source.shape = shape;
  source.encoding = encoding;
  source.read = [](uint64_t offset, std::span<std::byte> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = At(offset + i);
    return Status();
  };
  return source;
}

class StringSink final : public Sink {
 public:
  Status Write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status();
  }
  std::string text;
};

}  // namespace

TEST_CASE("tensors that are made while they are written") {
  const TempDir dir;
  const int64_t large[] = {37'000'001}, small[] = {5};
  const int tokens[3] = {};
  const auto provider = MakeProvider([&](Description& d) {
    d.Tensor("large", Computed(&tokens[0], large, Encoding::kRaw));
    d.Tensor("tied", Computed(&tokens[0], large, Encoding::kRaw));
    d.Tensor("small", Computed(&tokens[1], small, Encoding::kRaw));
    d.Tensor("packed", Computed(&tokens[2], large, Encoding::kZstd));
  });
  const EngineOptions engine{.pool_bytes = 8 * kMiB, .window_bytes = kMiB};
  REQUIRE(SaveFile(dir / "f", *provider, {}, engine).ok());
  const auto file = File::Open(dir / "f");
  REQUIRE(file.ok());
  CHECK(file->tensor_count() == 3);
  CHECK(file->alias_count() == 1);
  for (const char* name : {"large", "small", "packed", "tied"}) {
    const auto view = file->View(name);
    REQUIRE(view.ok());
    size_t wrong = 0;
    for (size_t i = 0; i < view->bytes().size(); ++i) wrong += view->bytes()[i] != At(i);
    CAPTURE(name);
    CHECK(wrong == 0);
  }
  CHECK(Verify(dir / "f", {.decode = true})->ok);
  StringSink sink;
  REQUIRE(SaveTo(sink, *provider).ok());
  CHECK(sink.text == ReadWholeFile(dir / "f"));
}

TEST_CASE("a read callback that fails or throws fails its save alone") {
  const TempDir dir;
  WriteWholeFile(dir / "f", "old");
  const bool throws = GENERATE(true, false);
  const Encoding encoding = GENERATE(Encoding::kRaw, Encoding::kZstd);
  const int64_t shape[] = {20'000'000};
  const int token = 0;
  const auto provider = MakeProvider([&](Description& d) {
    TensorSource source = Computed(&token, shape, encoding);
    source.read = [throws](uint64_t offset, std::span<std::byte> out) -> Status {
      std::memset(out.data(), 1, out.size());
      if (offset + out.size() < 10'000'000) return Status();
      if (throws) throw std::runtime_error("no more");
      return Status(StatusCode::kNotFound, "no more");
    };
    d.Tensor("t", source);
  });
  const auto engine = Engine::Create({.pool_bytes = 4 * kMiB, .window_bytes = kMiB});
  REQUIRE(engine.ok());
  const auto save = (*engine)->Save(dir / "f", *provider);
  REQUIRE(save.ok());
  const Status status = save->WaitDurable();
  CHECK(status.code() == (throws ? StatusCode::kInvalidArgument : StatusCode::kNotFound));
  CHECK(status.message().find("no more") != std::string::npos);
  CHECK(ReadWholeFile(dir / "f") == "old");
}

TEST_CASE("read callbacks cannot be strided, or without a token") {
  const TempDir dir;
  const int64_t shape[] = {4}, strides[] = {2};
  const int token = 0;
  TensorSource source = Computed(&token, shape, Encoding::kRaw);
  SECTION("strided") { source.strides = strides; }
  SECTION("no token") { source.data = nullptr; }
  const auto provider = MakeProvider([&](Description& d) { d.Tensor("t", source); });
  CHECK(SaveFile(dir / "f", *provider).code() == StatusCode::kInvalidArgument);
}

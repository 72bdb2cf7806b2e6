// A program outside the project: saves one tensor with the installed library, reads it back. Its
// classes derive from the library's, so that it needs their vtables and typeinfo.
#include <dsckpt/dsckpt.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace {

class Weights final : public dsckpt::StateProvider {
 public:
  explicit Weights(std::vector<float>& values) : values_(values) {}
  void Describe(dsckpt::Description& description) const override {
    const int64_t shape[] = {static_cast<int64_t>(values_.size())};
    description.Tensor(
        "weights",
        {.data = values_.data(), .dtype = dsckpt::kF32, .shape = shape, .writable = true});
  }

 private:
  std::vector<float>& values_;
};

class Buffer final : public dsckpt::Sink, public dsckpt::Source {
 public:
  dsckpt::Status Write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  uint64_t size() const override { return bytes_.size(); }
  dsckpt::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return dsckpt::Status(dsckpt::StatusCode::kTruncated, "beyond the end");
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::vector<std::byte> bytes_;
};

int Fail(const dsckpt::Status& status) {
  std::puts(status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<float> weights = {1, 2, 3};
  const Weights state(weights);
  const auto buffer = std::make_shared<Buffer>();
  dsckpt::Status status = dsckpt::SaveFile(argv[1], state);
  if (status.ok()) status = dsckpt::SaveTo(*buffer, state);
  if (!status.ok()) return Fail(status);

  for (const auto& file : {dsckpt::File::Open(argv[1]), dsckpt::File::Open(buffer)}) {
    if (!file.ok()) return Fail(file.status());
    weights = {0, 0, 0};
    if (status = file->Restore(state); !status.ok()) return Fail(status);
    if (weights != std::vector<float>{1, 2, 3}) return 1;
  }
  return 0;
}

// Opens a file from memory and reads everything in it; verifies it from a descriptor.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "fuzz/input.h"

namespace {

using namespace dsckpt;

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return Status(StatusCode::kTruncated, "read past the end");
    }
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return Status();
  }

 private:
  std::vector<std::byte> bytes_;
};

uint64_t CountNodes(const Node& root) {
  uint64_t count = 0;
  std::vector<Node> open = {root};
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    count += 1 + node.tag().size() + node.key().text().size() + node.value().index();
    if (node.is_container()) {
      for (const Node& child : node) open.push_back(child);
    }
  }
  return count;
}

void ReadEverything(const File& file) {
  static_cast<void>(file.Metadata().ok());
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const TensorInfo info = file.tensor(i);
    static_cast<void>(file.Digest(info));
    const auto view = file.View(info.name);
    std::vector<Range> box;
    uint64_t elements = 1;
    for (const int64_t dim : info.shape) {
      box.push_back({dim / 2, std::min<int64_t>(dim, dim / 2 + 4)});
      elements *= static_cast<uint64_t>(box.back().end - box.back().begin);
    }
    if (elements < 4096) {
      std::vector<std::byte> out(elements * info.dtype.block_bytes / info.dtype.block_elements);
      static_cast<void>(file.ReadSlice(info.name, box, out));
    }
  }
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    static_cast<void>(file.ReadObject(file.object(i).name));
  }
  for (uint32_t i = 0; i < file.alias_count(); ++i) {
    static_cast<void>(file.FindTensor(file.alias(i).name));
  }
  if (const auto tree = file.tree()) static_cast<void>(CountNodes(*tree));
  if (const auto attributes = file.attributes()) static_cast<void>(CountNodes(*attributes));
}

void VerifyDescriptor(const std::vector<std::byte>& bytes) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
    static_cast<void>(
        Verify("/proc/self/fd/" + std::to_string(fd), {.decode = true, .threads = 1}));
  }
  close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  RepairChecksums(bytes);
  VerifyDescriptor(bytes);
  const auto file = File::Open(std::make_shared<MemorySource>(std::move(bytes)), {.threads = 1});
  if (file.ok()) ReadEverything(*file);
  return 0;
}

// The coordinator of a group of one rank.

#include <utility>

#include "writer/group/coordinator_store.h"

namespace dsckpt {
namespace {

class Single final : public Coordinator {
 public:
  explicit Single(std::string session) : session_(std::move(session)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string session() const override { return session_; }
  Result<std::vector<std::vector<std::byte>>> Gather(std::string_view,
                                                     std::span<const std::byte> mine,
                                                     Clock::time_point) override {
    return std::vector<std::vector<std::byte>>{{mine.begin(), mine.end()}};
  }
  Result<std::vector<std::byte>> Broadcast(std::string_view, std::span<const std::byte> value,
                                           Clock::time_point) override {
    return std::vector<std::byte>(value.begin(), value.end());
  }

 private:
  const std::string session_;
};

}  // namespace

std::shared_ptr<Coordinator> SingleRank() { return std::make_shared<Single>(RandomHex()); }

}  // namespace dsckpt

#include "bench/measure.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

namespace dsckpt::bench {
namespace {

// A line of /proc/self/status, in bytes.
uint64_t StatusBytes(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string name; in >> name;) {
    uint64_t kib = 0;
    if (name == field + ":" && in >> kib) return kib * 1024;
    in.ignore(1 << 16, '\n');
  }
  return 0;
}

}  // namespace

double Median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  if (samples.size() % 2 == 1) return samples[middle];
  return (samples[middle - 1] + samples[middle]) / 2;
}

PeakMemory::PeakMemory() : start_bytes_(StatusBytes("VmRSS")) {
  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM = VmRSS; proc(5)
}

uint64_t PeakMemory::extra_bytes() const {
  const uint64_t peak = StatusBytes("VmHWM");
  return peak > start_bytes_ ? peak - start_bytes_ : 0;
}

ScratchFile::ScratchFile(const std::string& dir, const std::string& name)
    : path_(dir + "/dsckpt_bench-" + std::to_string(getpid()) + "-" + name) {}

ScratchFile::~ScratchFile() { unlink(path_.c_str()); }

void ScratchFile::Remove() const {
  unlink(path_.c_str());
  sync();
}

Status ScratchFile::DropCache() const {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info = {};
  if (fd < 0 || fstat(fd, &info) != 0) {
    return Status(StatusCode::kIoError, "cannot open the file to drop its pages")
        .WithErrno(errno)
        .WithPath(path_);
  }
  fdatasync(fd);  // dirty pages would stay
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const size_t bytes = static_cast<size_t>(info.st_size);
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  if (map == MAP_FAILED || mincore(map, bytes, pages.data()) != 0) {
    return Status(StatusCode::kIoError, "cannot ask which pages are resident").WithErrno(errno);
  }
  munmap(map, bytes);
  const auto resident = std::count_if(pages.begin(), pages.end(), [](int p) { return p & 1; });
  if (resident == 0) return {};
  return Status(StatusCode::kFailedPrecondition,
                std::to_string(resident) + " pages stay in the page cache: not a cold read");
}

}  // namespace dsckpt::bench

#ifndef DSCKPT_READER_FILE_VERIFY_PARTS_H_
#define DSCKPT_READER_FILE_VERIFY_PARTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/status.h"
#include "dsckpt/verify.h"
#include "format/columns/columns.h"
#include "format/footer/footer.h"
#include "io/input_file.h"

// The parts of Verify(): each reads and checks one kind of region and notes what is wrong.

namespace dsckpt::reader {

/// Collects problems in any order; keeps the first ones by offset, in bounded memory. Thread-safe.
class ProblemList {
 public:
  static constexpr size_t kMax = 1000;

  void Add(std::string_view item, std::string_view kind, uint64_t offset, std::string expected,
           std::string found);
  /// The problems in file order, with a last entry for what did not fit.
  std::vector<Problem> Take();

 private:
  void Shrink() DSCKPT_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Problem> problems_ DSCKPT_GUARDED_BY(mutex_);
  uint64_t dropped_ DSCKPT_GUARDED_BY(mutex_) = 0;
};

/// Counts checked bytes and tells the caller now and then. Thread-safe.
class ProgressMeter {
 public:
  ProgressMeter(const VerifyOptions& options, uint64_t total) : options_(options), total_(total) {}
  void Add(uint64_t bytes);
  /// The last report.
  void Finish();
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  const VerifyOptions& options_;
  const uint64_t total_;
  std::atomic<uint64_t> done_{0};
  Mutex mutex_;  // Of the callback: one call at a time.
  uint64_t reported_ DSCKPT_GUARDED_BY(mutex_) = 0;
};

/// One verification under way.
struct Verification {
  const io::InputFile& input;
  const VerifyOptions& options;
  format::Footer footer;
  ProblemList problems;
  ProgressMeter progress;
};

/// The header region: its checksum and, when `index` is at hand, that the JSON says the same.
Status VerifyHeader(Verification& run, const format::IndexView* index);

/// Every byte from the header's end to the index: chunk sums, and zeros between the items.
Status VerifyItems(Verification& run, const format::IndexView& index);

/// Tree nodes stand where their items' names say; keys are unique.
void VerifyTree(Verification& run, const format::IndexView& index);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_FILE_VERIFY_PARTS_H_

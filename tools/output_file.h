#ifndef DSCKPT_TOOLS_OUTPUT_FILE_H_
#define DSCKPT_TOOLS_OUTPUT_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "dsckpt/status.h"

namespace dsckpt::tools {

/// A small tool's own output: it appears under its name whole, when it is published, or not at all.
class OutputFile {
 public:
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status Write(std::span<const std::byte> bytes);
  /// Durable under its name; what stood there before gives way.
  Status Publish();

 private:
  OutputFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  Status Failed(const char* what) const;

  std::string path_;
  std::string temporary_;  // empty once it is published
  int fd_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_OUTPUT_FILE_H_

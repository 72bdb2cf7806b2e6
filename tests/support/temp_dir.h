#ifndef DSCKPT_TESTS_SUPPORT_TEMP_DIR_H_
#define DSCKPT_TESTS_SUPPORT_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

/// A fresh directory, removed with all it holds at the end of the test. On the build tree's file
/// system, not on a tmpfs, because O_DIRECT and fallocate behave differently there. Where
/// DSCKPT_KEEP_TEST_FILES names a folder of that file system it is moved there instead, for
/// tests/conformance/strict_files.py.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::current_path() / "tmp.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    if (const char* const keep = getenv("DSCKPT_KEEP_TEST_FILES")) {
      std::string place = std::string(keep) + "/kept.XXXXXX";
      if (mkdtemp(place.data()) != nullptr) std::filesystem::rename(path_, place, ignored);
      return;
    }
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string bytes(in ? static_cast<size_t>(in.tellg()) : 0, '\0');
  in.seekg(0);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

inline void WriteWholeFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

#endif  // DSCKPT_TESTS_SUPPORT_TEMP_DIR_H_

// dsckpt_vectors DIR: writes the conformance vectors to DIR/valid and DIR/invalid.

#include <cstdio>
#include <filesystem>

#include "spec/conformance/vectors.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: dsckpt_vectors DIR\n", stderr);
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  std::error_code error;
  for (const char* part : {"valid", "invalid"}) {
    std::filesystem::create_directories(directory / part, error);
  }
  const dsckpt::Status status = dsckpt::conformance::WriteVectors(directory.string());
  if (!status.ok()) std::fprintf(stderr, "dsckpt_vectors: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 2;
}

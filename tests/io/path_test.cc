#include "io/path.h"

#include <unistd.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt::io;

TEST_CASE("a relative path begins at the current directory") {
  const std::string here = std::filesystem::current_path().string();
  CHECK(AbsolutePath("a/../b").value() == here + "/a/../b");
  CHECK(AbsolutePath("/a//b/").value() == "/a//b/");
  CHECK(AbsolutePath("").status().code() == dsckpt::StatusCode::kInvalidArgument);
}

TEST_CASE("the last part of a path") {
  CHECK(BaseName("a/b") == "b");
  CHECK(BaseName("b") == "b");
  CHECK(BaseName("a/") == "");
  CHECK(BaseName("") == "");
  CHECK(WithoutTrailingSlashes("/a/b//") == "/a/b");
  CHECK(WithoutTrailingSlashes("/a/b/./") == "/a/b");
  CHECK(WithoutTrailingSlashes("a.") == "a.");
  CHECK(WithoutTrailingSlashes("/") == "/");
}

TEST_CASE("a link to a directory counts as one") {
  const TempDir dir;
  std::filesystem::create_directory_symlink(dir / ".", dir / "link");
  CHECK(IsDirectory(dir / "link"));
  CHECK_FALSE(IsDirectory(dir / "none"));
}

#include "tests/project/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = DSCKPT_SOURCE_DIR;

bool IsForeign(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with("tmp.") || name == "build" ||
         name == "__pycache__" || name == "_bin" || name.ends_with(".so") ||
         name.ends_with(".egg-info") || name.ends_with("~");
}

// Where the comment or literal that begins at `i` ends; `i` itself when none begins there.
size_t SkipHidden(const std::string& text, size_t i) {
  const auto past = [&](std::string_view mark, size_t from) {
    const size_t at = text.find(mark, from);
    return at == std::string::npos ? text.size() : at + mark.size();
  };
  if (text.compare(i, 2, "//") == 0) return std::min(text.find('\n', i), text.size());
  if (text.compare(i, 2, "/*") == 0) return past("*/", i + 2);
  if (text.compare(i, 3, "R\"(") == 0) return past(")\"", i + 3);
  // A digit separator is no quote.
  const bool separator =
      text[i] == '\'' && i > 0 && isxdigit(static_cast<unsigned char>(text[i - 1]));
  if ((text[i] != '"' && text[i] != '\'') || separator) return i;
  for (size_t end = i + 1; end < text.size(); ++end) {
    if (text[end] == '\\') {
      ++end;
    } else if (text[end] == text[i] || text[end] == '\n') {
      return end + 1;
    }
  }
  return text.size();
}

}  // namespace

std::vector<std::string> FilesBelow(std::string_view folder) {
  std::vector<std::string> files;
  const fs::path top = kRoot / folder;
  if (!fs::exists(top)) return files;
  for (auto entry = fs::recursive_directory_iterator(top); entry != fs::end(entry); ++entry) {
    if (IsForeign(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      files.push_back(entry->path().lexically_relative(kRoot).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadSource(const std::string& path) {
  std::ifstream in(kRoot / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string CodeOnly(const std::string& text) {
  std::string code = text;
  for (size_t i = 0; i < text.size();) {
    const size_t end = SkipHidden(text, i);
    for (size_t j = i; j < end; ++j) {
      if (code[j] != '\n') code[j] = ' ';
    }
    i = std::max(end, i + 1);
  }
  return code;
}

std::vector<std::string> Includes(const std::string& text) {
  std::vector<std::string> includes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kInclude = "#include ";
    if (!line.starts_with(kInclude)) continue;
    const char close = line[kInclude.size()] == '<' ? '>' : '"';
    const size_t end = line.find(close, kInclude.size() + 1);
    includes.push_back(line.substr(kInclude.size(), end + 1 - kInclude.size()));
  }
  return includes;
}

bool HasExtension(std::string_view path, std::initializer_list<std::string_view> extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [path](std::string_view extension) { return path.ends_with(extension); });
}

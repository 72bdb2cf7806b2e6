#ifndef DSCKPT_TESTS_PROJECT_SOURCE_TREE_H_
#define DSCKPT_TESTS_PROJECT_SOURCE_TREE_H_

#include <string>
#include <string_view>
#include <vector>

/// Files of the source tree below `folder`, as paths from the root ("format/names.cc"), sorted.
/// What is no part of the project (build trees, caches, hidden files) is left out.
std::vector<std::string> FilesBelow(std::string_view folder);

/// The whole of a file of the source tree.
std::string ReadSource(const std::string& path);

/// C++ text with comments and the insides of literals blanked, line breaks kept.
std::string CodeOnly(const std::string& text);

/// Lines that begin an #include, without `#include`: `"format/names.h"`, `<vector>`.
std::vector<std::string> Includes(const std::string& text);

bool HasExtension(std::string_view path, std::initializer_list<std::string_view> extensions);

#endif  // DSCKPT_TESTS_PROJECT_SOURCE_TREE_H_

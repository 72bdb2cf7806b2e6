#ifndef DSCKPT_IO_DIRECTORY_H_
#define DSCKPT_IO_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/status.h"

// Directories and small files, for the commit of a group and its readers. Errors carry path and
// errno.

namespace dsckpt::io {

/// The directory that holds `path`, slashes at its end not counted.
std::string ParentOf(std::string path);
/// Bare names, sorted by bytes, without "." and "..".
Result<std::vector<std::string>> ListDirectory(const std::string& path);
/// OK when it stands already, made by whomever. Makes missing parents too. What was made is
/// durable: each parent is synced.
Status MakeDirectories(const std::string& path);
/// Not synced: for what gets another name before it counts. kAlreadyExists when anything of that
/// name stands.
Status MakeDirectory(const std::string& path);
/// Never replaces: kAlreadyExists when `to` stands.
Status RenameNoReplace(const std::string& from, const std::string& to);
/// What stands at `a` and at `b` change places in one step. kUnsupported where the file system or
/// the kernel cannot: nothing has changed then.
Status Exchange(const std::string& a, const std::string& b);
/// Gives the directory `from` the name `to`, where another one stands. In one step where the file
/// system can exchange the two: then `from` is the name of the old one afterwards. Elsewhere in two
/// renames: the old one is called `aside` first (then `between` is called) and gets its name back
/// when the second rename fails. Returns which of the two names the old one has. kNotFound: one of
/// them is not there; kAlreadyExists: something is called `aside`.
Result<std::string> ReplaceDirectory(const std::string& from, const std::string& to,
                                     const std::string& aside,
                                     const std::function<void()>& between = {});
/// Replaces a file.
Status RenameFile(const std::string& from, const std::string& to);
/// fsync; file systems that cannot (EINVAL, ENOTSUP) are no error.
Status SyncDirectory(const std::string& path);
/// Removes a file or a whole directory; not being there is no error. Does not follow links.
Status RemoveAll(const std::string& path);

/// kLimitExceeded when it is larger than `max_bytes`; kInvalidArgument when it is no regular file.
Result<std::vector<std::byte>> ReadSmallFile(const std::string& path, uint64_t max_bytes);
/// Appears whole or not at all, and durable: temporary file, fsync, rename, fsync of the directory.
Status WriteSmallFile(const std::string& path, std::span<const std::byte> bytes);
/// Appears whole or not at all, but is not synced and leaves orphans to others: for values that
/// mean nothing after a crash.
Status WriteValueFile(const std::string& path, std::span<const std::byte> bytes);

/// What stands at a path; links are not followed.
enum class PathKind { kNone, kFile, kDirectory, kOther };
Result<PathKind> KindOf(const std::string& path);
/// Whether anything stands there, as far as can be told.
bool Stands(const std::string& path);
/// Size of a regular file; kInvalidArgument when it is none. Links are not followed.
Result<uint64_t> FileBytes(const std::string& path);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_DIRECTORY_H_

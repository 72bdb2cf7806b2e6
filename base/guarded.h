#ifndef DSCKPT_BASE_GUARDED_H_
#define DSCKPT_BASE_GUARDED_H_

// What the callbacks of a program throw, turned into a status.

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "dsckpt/status.h"

namespace dsckpt {

/// Runs `body` (returning Status) and turns what it throws into a status: memory that runs out, and
/// callers' callbacks, which may throw anything. A StatusError says it all. Nothing may leave an
/// engine thread or the API.
template <typename Body>
Status Guarded(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "out of memory");
  } catch (const StatusError& error) {
    return error.status();
  } catch (const std::exception& error) {
    return Status(StatusCode::kInvalidArgument, std::string("a callback threw: ") + error.what());
  } catch (...) {
    return Status(StatusCode::kInvalidArgument, "a callback threw something that is no exception");
  }
}

}  // namespace dsckpt

#endif  // DSCKPT_BASE_GUARDED_H_

#ifndef DSCKPT_BASE_THREAD_H_
#define DSCKPT_BASE_THREAD_H_

// How the library starts threads.

#include <functional>
#include <thread>

namespace dsckpt {

/// A thread with all signals blocked: the application's handlers never run on it. Not joinable
/// where the system has no thread left to give. `name`: the first 15 bytes count.
std::thread StartThread(const char* name, std::function<void()> body);

}  // namespace dsckpt

#endif  // DSCKPT_BASE_THREAD_H_

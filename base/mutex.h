#ifndef DSCKPT_BASE_MUTEX_H_
#define DSCKPT_BASE_MUTEX_H_

// A mutex whose use clang checks: -Wthread-safety finds a guarded member that is used without it.

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define DSCKPT_THREAD_ATTRIBUTE_(attribute) __attribute__((attribute))
#else
#define DSCKPT_THREAD_ATTRIBUTE_(attribute)
#endif

/// A member that may be used only while the mutex is held.
#define DSCKPT_GUARDED_BY(mutex) DSCKPT_THREAD_ATTRIBUTE_(guarded_by(mutex))
/// A function that is called only while the mutex is held.
#define DSCKPT_REQUIRES(...) DSCKPT_THREAD_ATTRIBUTE_(requires_capability(__VA_ARGS__))
/// A function that is called only while the mutex is not held.
#define DSCKPT_EXCLUDES(...) DSCKPT_THREAD_ATTRIBUTE_(locks_excluded(__VA_ARGS__))

namespace dsckpt {

/// std::mutex. Code locks it through MutexLock.
class DSCKPT_THREAD_ATTRIBUTE_(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// True: the mutex is held now; give it to MutexLock(mutex, std::adopt_lock).
  bool TryLock() DSCKPT_THREAD_ATTRIBUTE_(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex while it lives, except between Unlock() and Lock().
class DSCKPT_THREAD_ATTRIBUTE_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DSCKPT_THREAD_ATTRIBUTE_(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt)
      DSCKPT_THREAD_ATTRIBUTE_(requires_capability(mutex))
      : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() DSCKPT_THREAD_ATTRIBUTE_(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() DSCKPT_THREAD_ATTRIBUTE_(release_capability()) { lock_.unlock(); }
  void Lock() DSCKPT_THREAD_ATTRIBUTE_(acquire_capability()) { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

/// std::condition_variable. A wait is a loop in the function that holds the lock, so that the
/// condition is checked like any other use of what the mutex guards:
/// `while (!ready_) changed_.Wait(lock);`
class CondVar {
 public:
  void Wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  /// False when the deadline has passed.
  template <typename Clock, typename Duration>
  bool WaitUntil(MutexLock& lock, const std::chrono::time_point<Clock, Duration>& deadline) {
    return changed_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace dsckpt

#endif  // DSCKPT_BASE_MUTEX_H_

#ifndef DSCKPT_PYTHON_SAVE_H_
#define DSCKPT_PYTHON_SAVE_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/engine.h"
#include "python/src/status.h"
#include "python/src/waits.h"

namespace dsckpt::python {

/// One save under way, of an engine or of a group's writer.
struct Handle {
  std::variant<SaveHandle, CheckpointHandle> save;
  /// Of MarkUnderWay().
  std::weak_ptr<const void> under_way = {};
};

/// A reference for one call. Raises DsckptError once the object is closed.
template <typename T>
Borrowed<T> Borrow(const std::shared_ptr<T>& object) {
  if (object == nullptr) {
    Check(Status(StatusCode::kFailedPrecondition, "this writer is closed: make a new one"));
  }
  return Borrowed<T>(object);
}

/// The engine behind the Python object. `close` may come while others wait: they keep it alive.
struct PyEngine {
  std::shared_ptr<Engine> engine;
  ~PyEngine() { Close(); }
  Borrowed<Engine> get() const { return Borrow(engine); }
  void Close() { const Borrowed<Engine> last(std::exchange(engine, nullptr)); }
};

/// `on_event(kind, message)` as the engine calls it.
std::function<void(const Event&)> EventCallback(nb::object on_event);

SaveOptions MakeSaveOptions(nb::object on_captured, const nb::object& metadata,
                            std::string metadata_format, bool safetensors, bool statistics,
                            const nb::object& vendor);

/// Returns what expires once all saves that were begun with `options` have ended in whatever way,
/// and their failures are there for the engine's next fence: the engine keeps `before_publish`
/// until then.
std::weak_ptr<const void> MarkUnderWay(SaveOptions& options);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_SAVE_H_

#include "python/src/hold.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace dsckpt::python {
namespace {

std::atomic<bool> stopped{false};

// Never destroyed: engine threads may outlive static objects.
struct Dropped {
  std::mutex mutex;
  std::vector<PyObject*> objects;
};
Dropped& GetDropped() {
  static auto* dropped = new Dropped;
  return *dropped;
}

int ReleaseDropped(void*) {
  std::vector<PyObject*> objects;
  {
    std::lock_guard lock(GetDropped().mutex);
    objects.swap(GetDropped().objects);
  }
  for (PyObject* object : objects) Py_DECREF(object);
  return 0;
}

void Drop(PyObject* object) {
  if (stopped) return;  // The interpreter takes it along.
  if (PyGILState_Check()) return Py_DECREF(object);
  bool first = false;
  {
    std::lock_guard lock(GetDropped().mutex);
    first = GetDropped().objects.empty();
    GetDropped().objects.push_back(object);
  }
  // The queue of pending calls is short and may be full: then the next Hold() releases.
  if (first) Py_AddPendingCall(&ReleaseDropped, nullptr);
}

}  // namespace

std::shared_ptr<const void> Hold(nb::object object) {
  if (object.is_none()) return nullptr;
  bool waiting = false;
  {
    std::lock_guard lock(GetDropped().mutex);
    waiting = !GetDropped().objects.empty();
  }
  if (waiting) ReleaseDropped(nullptr);
  PyObject* raw = object.release().ptr();
  return {static_cast<const void*>(raw), [raw](const void*) { Drop(raw); }};
}

EngineThreadGil::EngineThreadGil() {
  if (!stopped) gil_.emplace();
}

void StopCallbacks() { stopped = true; }

}  // namespace dsckpt::python

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "python/src/bind.h"
#include "python/src/hold.h"
#include "python/src/save.h"
#include "python/src/text.h"
#include "python/src/walker.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;

const char* EventKind(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kFallback:
      return "fallback";
    case Event::Kind::kSaveFailed:
      return "save-failed";
    case Event::Kind::kNotFinite:
      return "not-finite";
    case Event::Kind::kDurability:
      break;
  }
  return "durability";
}

template <typename Enum>
Enum Choose(const char* what, const std::string& name,
            std::initializer_list<std::pair<const char*, Enum>> choices) {
  std::string known;
  for (const auto& [text, value] : choices) {
    if (name == text) return value;
    known += std::string(known.empty() ? "'" : ", '") + text + "'";
  }
  ThrowInvalid(std::string(what) + " is '" + name + "': give one of " + known);
}

void InitEngine(PyEngine* self, uint64_t pool_bytes, uint64_t window_bytes, int workers,
                int max_in_flight, const std::string& when_busy, const std::string& io,
                bool direct_io, int device, uint64_t device_snapshot_bytes, nb::object on_event) {
  EngineOptions options{.pool_bytes = pool_bytes,
                        .window_bytes = window_bytes,
                        .workers = workers,
                        .max_in_flight = max_in_flight,
                        .direct_io = direct_io,
                        .register_pool_for = device,
                        .device_snapshot_bytes = device_snapshot_bytes,
                        .on_event = EventCallback(std::move(on_event))};
  options.when_busy = Choose<WhenBusy>("when_busy", when_busy,
                                       {{"wait", WhenBusy::kWait},
                                        {"skip", WhenBusy::kSkip},
                                        {"replace", WhenBusy::kReplaceQueued}});
  options.io = Choose<IoBackend>(
      "io", io,
      {{"auto", IoBackend::kAuto}, {"uring", IoBackend::kUring}, {"threads", IoBackend::kThreads}});
  auto engine = Unwrap(WithoutGil([&] { return Engine::Create(std::move(options)); }));
  new (self) PyEngine{std::move(engine)};
}

Handle Save(PyEngine& self, const FsPath& path, Walker& walker, nb::object on_captured,
            const nb::object& metadata, std::string metadata_format, bool safetensors,
            bool statistics, const nb::object& vendor) {
  SaveOptions options =
      MakeSaveOptions(std::move(on_captured), metadata, std::move(metadata_format), safetensors,
                      statistics, vendor);
  std::weak_ptr<const void> under_way = MarkUnderWay(options);
  const Borrowed engine = self.get();
  auto saved = WithoutGil([&] { return engine->Save(path.bytes, walker, options); });
  walker.Release();
  walker.Rethrow();
  return {Unwrap(std::move(saved)), std::move(under_way)};
}

nb::dict ToDict(const Statistics& s) {
  nb::dict out;
  const auto set = [&](const char* name, auto value) { out[name] = value; };
  set("saves_started", s.saves_started);
  set("saves_durable", s.saves_durable);
  set("saves_failed", s.saves_failed);
  set("captured_bytes", s.captured_bytes);
  set("flushed_bytes", s.flushed_bytes);
  set("at_save_bytes", s.at_save_bytes);
  set("write_calls", s.write_calls);
  set("pool_bytes", s.pool_bytes);
  set("window_bytes", s.window_bytes);
  set("layouts_reused", s.layouts_reused);
  set("save_blocked_ns", s.save_blocked.count());
  set("fence_blocked_ns", s.fence_blocked.count());
  set("window_stall_ns", s.window_stall.count());
  set("at_save_stall_ns", s.at_save_stall.count());
  set("copy_hash_busy_ns", s.copy_hash_busy.count());
  set("encode_busy_ns", s.encode_busy.count());
  set("write_busy_ns", s.write_busy.count());
  set("last_capture_ns", s.last_capture.count());
  set("last_durable_ns", s.last_durable.count());
  set("suggested_pool_bytes", s.suggested_pool_bytes);
  set("suggested_interval_ns", s.suggested_interval().count());
  return out;
}

nb::dict ToDict(const Progress& progress) {
  nb::dict out;
  out["total_bytes"] = progress.total_bytes;
  out["captured_bytes"] = progress.captured_bytes;
  // The last window is written in whole blocks.
  out["flushed_bytes"] = std::min(progress.flushed_bytes, progress.total_bytes);
  out["captured"] = progress.captured;
  out["durable"] = progress.durable;
  return out;
}

void Wait(const Handle& handle, bool durable) {
  Check(Interruptibly([save = handle.save, durable] {
    return std::visit([&](const auto& s) { return durable ? s.WaitDurable() : s.WaitCaptured(); },
                      save);
  }));
}

void SaveDurably(PyEngine& self, const FsPath& path, Walker& walker, const nb::object& metadata,
                 std::string metadata_format, bool safetensors, bool statistics,
                 const nb::object& vendor) {
  const Handle handle = Save(self, path, walker, nb::none(), metadata, std::move(metadata_format),
                             safetensors, statistics, vendor);
  try {
    Wait(handle, true);
  } catch (const nb::python_error&) {
    // The caller has the memory back from here on, whatever ended the wait.
    const auto& save = std::get<SaveHandle>(handle.save);
    save.Cancel();
    (void)WithoutGil([&] { return save.WaitCaptured(); });
    throw;
  }
}

}  // namespace

std::function<void(const Event&)> EventCallback(nb::object on_event) {
  if (on_event.is_none()) return {};
  return [call = Callback(std::move(on_event))](const Event& event) {
    // Events inform: what their receiver raises has nobody to go to.
    (void)call(EventKind(event.kind), Message{event.status.ToString()});
  };
}

SaveOptions MakeSaveOptions(nb::object on_captured, const nb::object& metadata,
                            std::string metadata_format, bool safetensors, bool statistics,
                            const nb::object& vendor) {
  SaveOptions options;
  options.container = safetensors ? Container::kSafetensors : Container::kDsckpt;
  options.metadata_format = std::move(metadata_format);
  options.statistics = statistics;
  if (!metadata.is_none()) {
    for (const auto& [key, value] : nb::cast<nb::dict>(metadata)) {
      if (!nb::isinstance<nb::str>(key) || !nb::isinstance<nb::str>(value)) {
        ThrowInvalid("metadata holds " + std::string(nb::repr(key).c_str()) + ": " +
                     nb::repr(value).c_str() + ", but safetensors takes strings only");
      }
      options.metadata.emplace_back(nb::cast<std::string>(key), nb::cast<std::string>(value));
    }
  }
  if (!vendor.is_none()) {
    for (const auto& [name, data] : nb::cast<nb::dict>(vendor)) {
      if (!nb::isinstance<nb::str>(name) || !nb::isinstance<nb::bytes>(data)) {
        ThrowInvalid("vendor holds " + std::string(nb::repr(name).c_str()) + ": " +
                     nb::repr(nb::type_name(data.type())).c_str() + ": give str and bytes");
      }
      const auto bytes = nb::cast<nb::bytes>(data);
      options.vendor.emplace_back(nb::cast<std::string>(name),
                                  std::string(bytes.c_str(), bytes.size()));
    }
  }
  if (!on_captured.is_none()) {
    options.before_publish = [call = Callback(std::move(on_captured))] { return call(); };
  }
  return options;
}

std::weak_ptr<const void> MarkUnderWay(SaveOptions& options) {
  auto mark = std::make_shared<const char>();
  std::weak_ptr<const void> under_way = mark;
  options.before_publish = [mark = std::move(mark), call = std::move(options.before_publish)] {
    return call ? call() : Status();
  };
  return under_way;
}

void BindEngine(nb::module_& module) {
  nb::class_<Handle>(module, "SaveHandle")
      .def("wait_captured", [](const Handle& self) { Wait(self, false); })
      .def("wait_durable", [](const Handle& self) { Wait(self, true); })
      .def("cancel",
           [](const Handle& self) { std::visit([](const auto& s) { s.Cancel(); }, self.save); })
      .def("progress",
           [](const Handle& self) {
             return ToDict(std::visit([](const auto& s) { return s.progress(); }, self.save));
           })
      .def("ended", [](const Handle& self) { return self.under_way.expired(); })
      .def_prop_ro("of_group", [](const Handle& self) {
        return std::holds_alternative<CheckpointHandle>(self.save);
      });
  nb::class_<PyEngine>(module, "Engine")
      .def("__init__", &InitEngine, nb::kw_only(), "pool_bytes"_a = kGiB, "window_bytes"_a = 0,
           "workers"_a = 0, "max_in_flight"_a = 2, "when_busy"_a = "wait", "io"_a = "auto",
           "direct_io"_a = true, "device"_a = kHostMemory, "device_snapshot_bytes"_a = 0,
           "on_event"_a = nb::none())
      .def("save", &Save, "path"_a, "walker"_a, nb::kw_only(), "on_captured"_a = nb::none(),
           "metadata"_a = nb::none(), "metadata_format"_a = "pt", "safetensors"_a = false,
           "statistics"_a = false, "vendor"_a = nb::none())
      .def("save_durably", &SaveDurably, "path"_a, "walker"_a, nb::kw_only(),
           "metadata"_a = nb::none(), "metadata_format"_a = "pt", "safetensors"_a = false,
           "statistics"_a = false, "vendor"_a = nb::none())
      .def(
          "fence",
          [](PyEngine& self, const std::string& prefix) {
            const Borrowed engine = self.get();
            Check(Interruptibly([kept = engine.shared(), prefix] { return kept->Fence(prefix); }));
          },
          "prefix"_a = "")
      .def(
          "fence_on_stream",
          [](PyEngine& self, uintptr_t stream, const std::string& prefix) {
            const Borrowed engine = self.get();
            Check(WithoutGil(
                [&] { return engine->FenceOnStream(reinterpret_cast<Stream>(stream), prefix); }));
          },
          "stream"_a, "prefix"_a = "")
      .def("wait_durable",
           [](PyEngine& self) {
             const Borrowed engine = self.get();
             Check(Interruptibly([kept = engine.shared()] { return kept->WaitDurable(); }));
           })
      .def("statistics", [](PyEngine& self) { return ToDict(self.get()->statistics()); })
      .def("close", &PyEngine::Close)
      .def_prop_ro("closed", [](const PyEngine& self) { return self.engine == nullptr; });
}

}  // namespace dsckpt::python

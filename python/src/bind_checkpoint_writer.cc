#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "dsckpt/output_directory.h"
#include "python/src/bind.h"
#include "python/src/hold.h"
#include "python/src/save.h"
#include "python/src/text.h"
#include "python/src/walker.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;
using Seconds = std::chrono::duration<double>;

std::chrono::milliseconds ToMilliseconds(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) throw nb::value_error("the time is no number of seconds");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

double SecondsUntil(Coordinator::Clock::time_point deadline) {
  return std::max(0.0, Seconds(deadline - Coordinator::Clock::now()).count());
}

std::span<const std::byte> AsBytes(const nb::bytes& bytes) {
  return {static_cast<const std::byte*>(bytes.data()), bytes.size()};
}
std::vector<std::byte> Copy(const nb::bytes& bytes) {
  const auto view = AsBytes(bytes);
  return {view.begin(), view.end()};
}
nb::bytes ToBytes(std::span<const std::byte> bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

/// A Python object with the methods of a coordinator (dsckpt._native.Coordinator), called on the
/// commit thread.
class PyCoordinator final : public Coordinator {
 public:
  explicit PyCoordinator(nb::object object)
      : object_(object.ptr()),
        held_(Hold(object)),
        rank_(nb::cast<int>(object.attr("rank")())),
        size_(nb::cast<int>(object.attr("size")())),
        session_(nb::cast<std::string>(object.attr("session")())) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string session() const override { return session_; }

  Result<std::vector<std::vector<std::byte>>> Gather(std::string_view key,
                                                     std::span<const std::byte> mine,
                                                     Clock::time_point deadline) override {
    return Call<std::vector<std::vector<std::byte>>>([&](nb::handle self) {
      const nb::object parts = CallPython(self.attr("gather"), nb::str(key.data(), key.size()),
                                          ToBytes(mine), SecondsUntil(deadline));
      std::vector<std::vector<std::byte>> out;
      for (const nb::handle part : parts) out.push_back(Copy(nb::cast<nb::bytes>(part)));
      return out;
    });
  }
  Result<std::vector<std::byte>> Broadcast(std::string_view key, std::span<const std::byte> value,
                                           Clock::time_point deadline) override {
    return Call<std::vector<std::byte>>([&](nb::handle self) {
      return Copy(
          nb::cast<nb::bytes>(CallPython(self.attr("broadcast"), nb::str(key.data(), key.size()),
                                         ToBytes(value), SecondsUntil(deadline))));
    });
  }

 private:
  template <typename T, typename Body>
  Result<T> Call(Body body) {
    const EngineThreadGil gil;
    if (!gil) return Status(StatusCode::kCancelled, "the interpreter is shutting down");
    try {
      return body(nb::handle(object_));
    } catch (nb::python_error& error) {
      const bool timed_out = error.matches(PyExc_TimeoutError);
      const Status status = FromPython(error);
      return Status(timed_out ? StatusCode::kTimedOut : StatusCode::kIoError, status.message());
    } catch (const std::exception& error) {
      return Status(StatusCode::kInternal, error.what());
    }
  }

  PyObject* object_;
  std::shared_ptr<const void> held_;
  int rank_, size_;
  std::string session_;
};

/// Base of coordinators in Python, and what stands there for those made in C++.
struct BoundCoordinator {
  std::shared_ptr<Coordinator> native;  // Null: the methods are Python's.
};

std::shared_ptr<Coordinator> ToCoordinator(const nb::object& object) {
  if (object.is_none()) return SingleRank();
  if (nb::isinstance<BoundCoordinator>(object)) {
    const auto& bound = nb::cast<const BoundCoordinator&>(object);
    if (bound.native != nullptr) return bound.native;
  }
  return std::make_shared<PyCoordinator>(object);
}

Coordinator& Native(const BoundCoordinator& self) {
  if (self.native == nullptr) throw nb::type_error("a coordinator overrides all its methods");
  return *self.native;
}

nb::list GatherNative(const BoundCoordinator& self, const std::string& key, const nb::bytes& mine,
                      double seconds) {
  const auto deadline = Coordinator::Clock::now() + ToMilliseconds(seconds);
  auto parts =
      Unwrap(WithoutGil([&] { return Native(self).Gather(key, AsBytes(mine), deadline); }));
  nb::list out;
  for (const auto& part : parts) out.append(ToBytes(part));
  return out;
}

nb::bytes BroadcastNative(const BoundCoordinator& self, const std::string& key,
                          const nb::bytes& value, double seconds) {
  const auto deadline = Coordinator::Clock::now() + ToMilliseconds(seconds);
  return ToBytes(
      Unwrap(WithoutGil([&] { return Native(self).Broadcast(key, AsBytes(value), deadline); })));
}

BoundCoordinator Join(const FsPath& path, int rank, int size, const std::string& job,
                      double timeout_seconds) {
  const SharedDirectoryOptions options{.path = path.bytes,
                                       .rank = rank,
                                       .size = size,
                                       .job = job,
                                       .timeout = ToMilliseconds(timeout_seconds)};
  return {Unwrap(WithoutGil([&] { return JoinSharedDirectory(options); }))};
}

struct PyWriter {
  std::shared_ptr<CheckpointWriter> writer;  // Holds its engine.
  ~PyWriter() { Close(); }
  Borrowed<CheckpointWriter> get() const { return Borrow(writer); }
  void Close() { const Borrowed<CheckpointWriter> last(std::exchange(writer, nullptr)); }
};

void InitWriter(PyWriter* self, const PyEngine& engine, const FsPath& run_directory,
                const nb::object& coordinator, double timeout_seconds, int keep_last,
                int64_t keep_every, std::vector<int64_t> keep, bool standalone,
                nb::object on_event) {
  CheckpointWriterOptions options{
      .run_directory = run_directory.bytes,
      .coordinator = ToCoordinator(coordinator),
      .timeout = ToMilliseconds(timeout_seconds),
      .retention = {.keep_last = keep_last, .keep_every = keep_every, .keep = std::move(keep)},
      .standalone = standalone,
      .on_event = EventCallback(std::move(on_event))};
  const Borrowed borrowed = engine.get();
  auto writer = Unwrap(
      WithoutGil([&] { return CheckpointWriter::Create(*borrowed.shared(), std::move(options)); }));
  // The engine outlives the writer.
  new (self) PyWriter{std::shared_ptr<CheckpointWriter>(
      writer.release(), [kept = borrowed.shared()](CheckpointWriter* p) { delete p; })};
}

Handle SaveCheckpoint(PyWriter& self, int64_t step,
                      const std::vector<std::pair<std::string, Walker*>>& shards,
                      const std::string& name, bool replace, bool in_place, nb::object on_captured,
                      const nb::object& metadata, bool statistics, const nb::object& vendor) {
  CheckpointSaveOptions options{
      .name = name,
      .replace = replace,
      .in_place = in_place,
      .file = MakeSaveOptions(std::move(on_captured), metadata, "pt", false, statistics, vendor)};
  std::weak_ptr<const void> under_way = MarkUnderWay(options.file);
  std::vector<ShardSource> sources;
  for (const auto& [shard, walker] : shards) sources.push_back({shard, walker});
  const Borrowed writer = self.get();
  auto saved = WithoutGil([&] { return writer->Save(step, sources, options); });
  for (const auto& [shard, walker] : shards) walker->Release();
  for (const auto& [shard, walker] : shards) walker->Rethrow();
  return {Unwrap(std::move(saved)), std::move(under_way)};
}

struct PyOutputDirectory {
  std::optional<OutputDirectory> output;
  OutputDirectory& get() {
    if (!output) throw nb::value_error("the directory was published or dropped");
    return *output;
  }
  void Publish(bool replace) {
    Check(WithoutGil([&] { return get().Publish(replace); }));
    Drop();
  }
  void Drop() {
    WithoutGil([&] { output.reset(); });
  }
};

}  // namespace

void BindCheckpointWriter(nb::module_& module) {
  nb::class_<BoundCoordinator>(module, "Coordinator")
      .def(nb::init<>())
      .def("rank", [](const BoundCoordinator& self) { return Native(self).rank(); })
      .def("size", [](const BoundCoordinator& self) { return Native(self).size(); })
      .def("session", [](const BoundCoordinator& self) { return Native(self).session(); })
      .def("gather", &GatherNative, "key"_a, "mine"_a, "timeout_seconds"_a)
      .def("broadcast", &BroadcastNative, "key"_a, "value"_a, "timeout_seconds"_a);
  module.def("single_rank", [] { return BoundCoordinator{SingleRank()}; });
  module.def("join_shared_directory", &Join, "path"_a, "rank"_a, "size"_a, nb::kw_only(),
             "job"_a = "", "timeout_seconds"_a = 600.0);
  nb::class_<PyOutputDirectory>(module, "OutputDirectory")
      .def(
          "__init__",
          [](PyOutputDirectory* self, const FsPath& path) {
            new (self) PyOutputDirectory{
                Unwrap(WithoutGil([&] { return OutputDirectory::Create(path.bytes); }))};
          },
          "path"_a)
      .def_prop_ro("path", [](PyOutputDirectory& self) { return FsPath{self.get().path()}; })
      .def("publish", &PyOutputDirectory::Publish, "replace"_a = false)
      .def("drop", &PyOutputDirectory::Drop);
  module.def(
      "roll_back",
      [](const FsPath& run_directory, int64_t step) {
        Check(WithoutGil([&] { return RollBack(run_directory.bytes, step); }));
      },
      "run_directory"_a, "step"_a);
  nb::class_<PyWriter>(module, "CheckpointWriter")
      .def("__init__", &InitWriter, "engine"_a, "run_directory"_a, nb::kw_only(),
           "coordinator"_a = nb::none(), "timeout_seconds"_a = 1800.0, "keep_last"_a = 0,
           "keep_every"_a = 0, "keep"_a = std::vector<int64_t>(), "standalone"_a = false,
           "on_event"_a = nb::none())
      .def("save", &SaveCheckpoint, "step"_a, "shards"_a, nb::kw_only(), "name"_a = "",
           "replace"_a = false, "in_place"_a = false, "on_captured"_a = nb::none(),
           "metadata"_a = nb::none(), "statistics"_a = false, "vendor"_a = nb::none())
      .def(
          "roll_back",
          [](PyWriter& self, int64_t step) {
            const Borrowed writer = self.get();
            Check(Interruptibly([kept = writer.shared(), step] { return kept->RollBack(step); }));
          },
          "step"_a)
      .def("wait_durable",
           [](PyWriter& self) {
             const Borrowed writer = self.get();
             Check(Interruptibly([kept = writer.shared()] { return kept->WaitDurable(); }));
           })
      .def("close", &PyWriter::Close);
}

}  // namespace dsckpt::python

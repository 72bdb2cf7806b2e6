#include <cstring>

#include "dsckpt/c.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/device/fake_device.h"
#include "tests/writer/device/rig.h"

// The device half of dsckpt/c.h; tests/c has what it does where there is no device.

namespace {

/// The error that calls fill, checked after each.
struct Calls {
  dsckpt_error error = {};
  void operator()(int code) {
    INFO(error.message);
    REQUIRE(code == DSCKPT_OK);
  }
  void Fails(int code, int wanted) {
    INFO(dsckpt_code_name(code) << ": " << error.message);
    CHECK(code == wanted);
  }
};

bool Filled(Rig& rig, const Block& block, uint8_t value) {
  const auto bytes = rig.Download(block.device(), block.data(), block.bytes());
  return bytes == std::vector<std::byte>(block.bytes(), std::byte{value});
}

}  // namespace

TEST_CASE("C: device memory saved, fenced, loaded and restored") {
  const std::string name = GENERATE(std::string("simulated"), std::string("cuda"));
  INFO(name);
  const auto rig = MakeRig(name);
  if (rig == nullptr) return;
  const TempDir dir;
  const std::string path = dir / "f";
  Calls ok;
  ok(dsckpt_device_support(&ok.error));
  constexpr int64_t kShape[2] = {1000, 1000};
  constexpr uint64_t kBytes = 1'000'000;
  const Queue stream(*rig, 0);
  const Block params(*rig, 0, kBytes), moments(*rig, 0, kBytes), scale(*rig, 0, 1000);
  const auto fill = [&](const Block& block, uint8_t value) {
    rig->FillLater(0, stream.get(), block.data(), block.bytes(), value);
  };

  static int released;
  released = 0;
  dsckpt_state* state = nullptr;
  ok(dsckpt_state_create(&state, &ok.error));
  dsckpt_tensor_options owned = {};
  owned.size = sizeof owned;
  owned.release = [](void*) { ++released; };
  ok(dsckpt_state_add_device_tensor(state, "adam/m", moments.data(), DSCKPT_U8, kShape, 2, 0,
                                    stream.get(), &owned, &ok.error));
  ok(dsckpt_state_add_device_tensor(state, "params", params.data(), DSCKPT_U8, kShape, 2,
                                    DSCKPT_DEVICE_OF_POINTER, stream.get(), nullptr, &ok.error));
  dsckpt_tensor_options at_save = {};
  at_save.size = sizeof at_save;
  at_save.capture = DSCKPT_AT_SAVE;
  ok(dsckpt_state_add_device_tensor(state, "scale", scale.data(), DSCKPT_U8, &kShape[1], 1, 0,
                                    stream.get(), &at_save, &ok.error));

  dsckpt_engine_options options = {};
  options.size = sizeof options;
  options.pool_bytes = 8 << 20;
  options.register_pool_for = 1;
  dsckpt_engine* engine = nullptr;
  ok(dsckpt_engine_create(&options, &engine, &ok.error));
  for (const Block* block : {&params, &moments, &scale}) fill(*block, 7);
  ok(dsckpt_engine_save(engine, path.c_str(), state, nullptr, nullptr, &ok.error));
  fill(scale, 9);
  ok(dsckpt_engine_fence_on_stream(engine, stream.get(), "adam/", &ok.error));
  fill(moments, 9);
  ok(dsckpt_engine_fence_on_stream(engine, stream.get(), nullptr, &ok.error));
  fill(params, 9);
  ok(dsckpt_engine_fence_prefix(engine, "params", &ok.error));
  ok(dsckpt_engine_wait_durable(engine, &ok.error));
  dsckpt_engine_destroy(engine);
  rig->Synchronize(0, stream.get());
  CHECK(Filled(*rig, params, 9));
  CHECK(Filled(*rig, moments, 9));

  dsckpt_file* file = nullptr;
  ok(dsckpt_file_open(path.c_str(), nullptr, &file, &ok.error));
  const dsckpt_load_request request = {"params", params.data(), kBytes, nullptr, 0};
  ok(dsckpt_file_load_device(file, &request, 1, 0, stream.get(), &ok.error));
  CHECK(Filled(*rig, params, 7));
  fill(params, 3);
  ok(dsckpt_file_load_device(file, &request, 1, DSCKPT_DEVICE_OF_POINTER, stream.get(), &ok.error));
  CHECK(Filled(*rig, params, 7));
  ok(dsckpt_file_restore(file, state, nullptr, &ok.error));
  CHECK(Filled(*rig, moments, 7));
  CHECK(Filled(*rig, scale, 7));
  std::vector<char> host(kBytes);
  const dsckpt_load_request not_device = {"params", host.data(), kBytes, nullptr, 0};
  ok.Fails(
      dsckpt_file_load_device(file, &not_device, 1, DSCKPT_DEVICE_OF_POINTER, nullptr, &ok.error),
      DSCKPT_INVALID_ARGUMENT);
  dsckpt_file_destroy(file);
  CHECK(released == 0);
  dsckpt_state_destroy(state);
  CHECK(released == 1);
}

TEST_CASE("C: a fence on a stream whose graph is being captured is refused") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const Block block(rig, 0, 1000);
  Calls ok;
  dsckpt_state* state = nullptr;
  ok(dsckpt_state_create(&state, &ok.error));
  const int64_t shape[] = {1000};
  ok(dsckpt_state_add_device_tensor(state, "w", block.data(), DSCKPT_U8, shape, 1, 0, stream.get(),
                                    nullptr, &ok.error));
  dsckpt_engine_options options = {};
  options.size = sizeof options;
  options.pool_bytes = 8 << 20;
  dsckpt_engine* engine = nullptr;
  ok(dsckpt_engine_create(&options, &engine, &ok.error));
  const auto open = rig.Hold(0, stream.get());
  ok(dsckpt_engine_save(engine, (dir / "f").c_str(), state, nullptr, nullptr, &ok.error));
  rig.SetCapturing(stream.get(), true);
  for (const char* prefix : {static_cast<const char*>(nullptr), "w"}) {
    ok.Fails(dsckpt_engine_fence_on_stream(engine, stream.get(), prefix, &ok.error),
             DSCKPT_FAILED_PRECONDITION);
  }
  rig.SetCapturing(stream.get(), false);
  open();
  ok(dsckpt_engine_wait_durable(engine, &ok.error));
  dsckpt_engine_destroy(engine);
  dsckpt_state_destroy(state);
}

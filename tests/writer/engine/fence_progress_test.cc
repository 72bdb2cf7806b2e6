#include "writer/engine/fence_progress.h"

#include "tests/support/catch.h"

using namespace dsckpt;

TEST_CASE("fence progress: windows count from the first on, whatever their order") {
  FenceProgress progress;
  const FenceScope scope{.host_windows = 2, .device_windows = 1, .appended_items = 1};
  progress.WindowRead(1);
  progress.WindowRead(2);
  progress.AppendedItemRead();
  CHECK_FALSE(progress.HasRead(scope));
  progress.WindowRead(0);
  CHECK(progress.HasRead(scope));
  CHECK(progress.HasRead({.host_windows = 3, .device_windows = 3, .appended_items = 1}));
  CHECK_FALSE(progress.HasRead({.host_windows = 4}));
  CHECK_FALSE(progress.HasRead({.device_windows = 4}));
  CHECK_FALSE(progress.HasRead({.appended_items = 2}));
}

TEST_CASE("fence progress: devices need their copies to be enqueued, or a snapshot") {
  FenceProgress progress;
  const FenceScope scope{.host_windows = 0, .device_windows = 3, .appended_items = 0};
  progress.WindowsEnqueued(3);
  progress.WindowsEnqueued(2);
  CHECK(progress.HasOrdered(scope));
  CHECK(progress.DeviceWindows(scope) == 3);
  const FenceScope more{.host_windows = 0, .device_windows = 4, .appended_items = 0};
  CHECK_FALSE(progress.HasOrdered(more));
  progress.SnapshotHoldsAll();
  CHECK(progress.HasOrdered(more));
  CHECK(progress.DeviceWindows(more) == 0);
  CHECK_FALSE(progress.HasOrdered({.host_windows = 1, .device_windows = 0, .appended_items = 0}));
}

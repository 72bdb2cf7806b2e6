#include "writer/engine/save_progress.h"

#include <utility>

namespace dsckpt {

SaveProgress::SaveProgress(Clock::time_point started, const SourcesLeft& left, Owners owners,
                           EngineCounters& engine)
    : engine_(engine), started_(started), left_(left), owners_(std::move(owners)) {
  if (left_.none()) CheckCaptured();
}

void SaveProgress::Fail(Status failure) {
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = std::move(failure);
  stopped_ = true;
  changed_.NotifyAll();
}

void SaveProgress::Cancel(Status reason) {
  MutexLock lock(mutex_);
  if (publishing_ || done_) return;
  if (status_.ok()) status_ = std::move(reason);
  stopped_ = true;
  changed_.NotifyAll();
}

bool SaveProgress::BeginPublishing() {
  MutexLock lock(mutex_);
  publishing_ = !stopped_;
  return publishing_;
}

void SaveProgress::MarkDone(Status final_status) {
  Owners released;
  MutexLock lock(mutex_);
  if (!final_status.ok()) status_ = std::move(final_status);
  done_ = true;
  released.swap(owners_);
  changed_.NotifyAll();
}

void SaveProgress::AddPending() {
  MutexLock lock(mutex_);
  ++pending_;
}

void SaveProgress::FinishPending() {
  MutexLock lock(mutex_);
  if (--pending_ == 0) changed_.NotifyAll();
}

void SaveProgress::Captured(uint64_t bytes, uint64_t awaited) { Account(bytes, bytes, awaited); }

void SaveProgress::Copied(uint64_t bytes, uint64_t awaited) { Account(bytes, 0, awaited); }

void SaveProgress::Account(uint64_t captured, uint64_t ordered, uint64_t awaited) {
  counters_.captured_bytes += captured;
  engine_.captured_bytes += captured;
  Owners released;
  MutexLock lock(mutex_);
  left_.bytes -= captured;
  left_.unordered_bytes -= ordered;
  left_.awaited_bytes -= awaited;
  if (awaited != 0 && left_.awaited_bytes == 0) changed_.NotifyAll();
  if (ordered != 0 && left_.unordered_bytes == 0) changed_.NotifyAll();
  released = CheckCaptured();
}

void SaveProgress::CallbackReturned() {
  Owners released;
  MutexLock lock(mutex_);
  --left_.callbacks;
  released = CheckCaptured();
}

SaveProgress::Owners SaveProgress::CheckCaptured() {
  if (captured_ || !left_.none()) return {};
  captured_ = true;
  counters_.capture_ns = NanosecondsSince(started_);
  engine_.last_capture_ns = counters_.capture_ns.load();
  changed_.NotifyAll();
  return std::exchange(owners_, {});
}

void SaveProgress::LeaveToStages(uint64_t bytes) {
  MutexLock lock(mutex_);
  left_.awaited_bytes = bytes;
}

void SaveProgress::AtSaveEnqueued(uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    at_save_copied_ = false;
  }
  Account(0, bytes, 0);
}

void SaveProgress::AtSaveCopied(uint64_t bytes) {
  Account(bytes, 0, 0);
  MutexLock lock(mutex_);
  at_save_copied_ = true;
  changed_.NotifyAll();
}

void SaveProgress::WindowsEnqueued(uint64_t bytes, uint64_t windows) {
  Account(0, bytes, 0);
  MutexLock lock(mutex_);
  fences_.WindowsEnqueued(windows);
  if (fences_waiting_ > 0) changed_.NotifyAll();
}

void SaveProgress::SnapshotEnqueued(uint64_t bytes, bool all) {
  Account(0, bytes, 0);
  MutexLock lock(mutex_);
  if (all) fences_.SnapshotHoldsAll();
  if (fences_waiting_ > 0) changed_.NotifyAll();
}

void SaveProgress::WindowRead(uint64_t window) {
  MutexLock lock(mutex_);
  fences_.WindowRead(window);
  if (fences_waiting_ > 0) changed_.NotifyAll();
}

void SaveProgress::AppendedItemRead() {
  MutexLock lock(mutex_);
  fences_.AppendedItemRead();
  if (fences_waiting_ > 0) changed_.NotifyAll();
}

void SaveProgress::AddWindowStall(uint64_t nanoseconds) {
  counters_.window_stall_ns += nanoseconds;
  engine_.window_stall_ns += nanoseconds;
}

void SaveProgress::FileReady() {
  MutexLock lock(mutex_);
  file_ready_ = true;
  changed_.NotifyAll();
}

void SaveProgress::PlacedDispatched() {
  MutexLock lock(mutex_);
  placed_dispatched_ = true;
  changed_.NotifyAll();
}

void SaveProgress::AppendDone() {
  MutexLock lock(mutex_);
  append_done_ = true;
  changed_.NotifyAll();
}

bool SaveProgress::AwaitFile() {
  MutexLock lock(mutex_);
  while (!file_ready_) changed_.Wait(lock);
  return !stopped_;
}

void SaveProgress::AwaitAtSaveCopied() {
  MutexLock lock(mutex_);
  while (!at_save_copied_) changed_.Wait(lock);
}

void SaveProgress::AwaitNothingPending() {
  MutexLock lock(mutex_);
  while (pending_ != 0) changed_.Wait(lock);
}

bool SaveProgress::AwaitPlacedDispatched() {
  MutexLock lock(mutex_);
  while (!placed_dispatched_ && !stopped_) changed_.Wait(lock);
  return !stopped_;
}

void SaveProgress::AwaitStagesIdle() {
  MutexLock lock(mutex_);
  while (!placed_dispatched_ || !append_done_ || pending_ != 0) changed_.Wait(lock);
}

void SaveProgress::AwaitSaveMayReturn() {
  MutexLock lock(mutex_);
  while (left_.awaited_bytes != 0 && !done_) changed_.Wait(lock);
}

void SaveProgress::AwaitCaptured() {
  MutexLock lock(mutex_);
  while (!captured_ && !done_) changed_.Wait(lock);
}

void SaveProgress::AwaitDone() {
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(lock);
}

bool SaveProgress::AwaitOrdered() {
  MutexLock lock(mutex_);
  while (left_.unordered_bytes != 0 && !done_) changed_.Wait(lock);
  return !captured_ && !done_;
}

void SaveProgress::AwaitRead(const FenceScope& scope) {
  MutexLock lock(mutex_);
  ++fences_waiting_;
  while (!captured_ && !done_ && !fences_.HasRead(scope)) changed_.Wait(lock);
  --fences_waiting_;
}

std::optional<uint64_t> SaveProgress::AwaitOrdered(const FenceScope& scope) {
  MutexLock lock(mutex_);
  ++fences_waiting_;
  while (!captured_ && !done_ && !fences_.HasOrdered(scope)) changed_.Wait(lock);
  --fences_waiting_;
  if (captured_ || done_) return std::nullopt;
  return fences_.DeviceWindows(scope);
}

Status SaveProgress::WaitCaptured() {
  MutexLock lock(mutex_);
  while (!captured_ && !done_) changed_.Wait(lock);
  if (!done_ || status_.ok()) return Status();
  seen_ = true;
  return status_;
}

Status SaveProgress::WaitDone() {
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(lock);
  seen_ = true;
  return status_;
}

bool SaveProgress::captured() const {
  MutexLock lock(mutex_);
  return captured_;
}

bool SaveProgress::durable() const {
  MutexLock lock(mutex_);
  return done_ && status_.ok();
}

bool SaveProgress::sources_free() const {
  MutexLock lock(mutex_);
  return captured_ || done_;
}

bool SaveProgress::seen() const {
  MutexLock lock(mutex_);
  return seen_;
}

Status SaveProgress::status() const {
  MutexLock lock(mutex_);
  return status_;
}

}  // namespace dsckpt

// Trajectory: what it says of its checkpoints and tensors, and reading them.

#include "dsckpt/trajectory.h"

#include <algorithm>

#include "base/unicode.h"
#include "merge/inputs.h"
#include "trajectory/trajectory_impl.h"

namespace dsckpt {

namespace {

Status Lacks(const Trajectory& run, uint32_t t, uint32_t i) {
  return Status(StatusCode::kNotFound,
                "the checkpoint has no tensor " + QuotedName(run.tensor(i).name))
      .WithPath(run.path(t));
}

/// Whether a stored tensor is the logical one, element by element.
bool IsAll(const LogicalTensorInfo& info, const TensorInfo& stored, const OwnedPiece& piece) {
  if (piece.element_offset != 0 || stored.raw_bytes != info.bytes) return false;
  if (!std::ranges::equal(stored.shape, info.shape)) return false;
  if (piece.form == Piece::Form::kFlat) {
    const auto elements = ElementCount(info.shape);
    return elements.ok() && piece.flat == Range{0, static_cast<int64_t>(*elements)};
  }
  return std::ranges::equal(piece.box, info.shape, [](const Range& range, int64_t size) {
    return range == Range{0, size};
  });
}

}  // namespace

void Trajectory::Impl::LimitOpen() {
  uint32_t shards = 1;
  for (const trajectory::Member& member : members) shards = std::max(shards, member.shards);
  const size_t fit = options.max_open_files / std::min(shards, kOpenShards);
  const size_t reading = std::clamp<size_t>(fit / 2, 1, kReaders);
  MutexLock lock(mutex);
  readers.emplace(reading);
  open.emplace(std::max(fit, reading + 1) - reading);
}

Result<Checkpoint> Trajectory::Impl::Open(uint32_t t, trajectory::OpenCheckpoints& kept) const {
  {
    MutexLock lock(mutex);
    if (const Checkpoint* const found = kept.Find(t)) return *found;
  }
  DSCKPT_ASSIGN_OR_RETURN(merge::Inputs inputs,
                          merge::OpenOperand(members[t].operand, CheckpointOptions{.retry = {}}));
  MutexLock lock(mutex);
  kept.Put(t, inputs.checkpoint);
  return std::move(inputs.checkpoint);
}

uint32_t Trajectory::size() const { return static_cast<uint32_t>(impl_->members.size()); }
std::optional<int64_t> Trajectory::step(uint32_t t) const { return impl_->members[t].step.step; }
StepSource Trajectory::step_source(uint32_t t) const { return impl_->members[t].step.source; }
const std::string& Trajectory::path(uint32_t t) const { return impl_->members[t].operand.path; }
const std::string& Trajectory::operand(uint32_t t) const { return impl_->members[t].text; }
std::span<const std::pair<std::string, Value>> Trajectory::attributes(uint32_t t) const {
  return impl_->members[t].attributes;
}
std::optional<Hash128> Trajectory::TreeDigest(uint32_t t) const {
  return impl_->members[t].tree_digest;
}
std::optional<Hash128> Trajectory::StoredDigest(uint32_t t) const {
  return impl_->members[t].stored_digest;
}
const std::vector<std::pair<std::string, std::string>>& Trajectory::skipped() const {
  return impl_->skipped;
}
uint64_t Trajectory::index_bytes() const { return impl_->index_bytes; }

uint32_t Trajectory::tensor_count() const { return impl_->tables.name_count(); }

TrajectoryTensor Trajectory::tensor(uint32_t i) const {
  const trajectory::Span& span = impl_->spans[i];
  const trajectory::Form& form = impl_->tables.form(span.last_form);
  TrajectoryTensor tensor;
  tensor.name = impl_->tables.name(i);
  tensor.first = span.first;
  tensor.last = span.last;
  tensor.checkpoints = span.checkpoints;
  tensor.forms = span.forms;
  tensor.dtype = form.dtype;
  tensor.shape = form.shape;
  return tensor;
}

std::optional<uint32_t> Trajectory::FindTensor(std::string_view name) const {
  return impl_->tables.Find(name);
}

std::optional<TrajectoryForm> Trajectory::Form(uint32_t t, uint32_t i) const {
  const auto cell = impl_->members[t].column.Find(i);
  if (!cell) return std::nullopt;
  const trajectory::Form& form = impl_->tables.form(cell->form);
  return TrajectoryForm{form.dtype, form.shape, form.bytes};
}

std::optional<Hash128> Trajectory::Digest(uint32_t t, uint32_t i) const {
  const auto cell = impl_->members[t].column.Find(i);
  if (!cell || cell->kind != trajectory::DigestKind::kWhole) return std::nullopt;
  return cell->digest;
}

std::optional<Hash128> Trajectory::Content(uint32_t t, uint32_t i) const {
  const auto cell = impl_->members[t].column.Find(i);
  if (!cell || cell->kind == trajectory::DigestKind::kNone) return std::nullopt;
  return cell->digest;
}

std::optional<TensorStatistics> Trajectory::Statistics(uint32_t t, uint32_t i) const {
  const auto cell = impl_->members[t].column.Find(i);
  return cell ? cell->statistics : std::nullopt;
}

Result<Checkpoint> Trajectory::OpenCheckpoint(uint32_t t) const {
  return impl_->Open(t, *impl_->open);
}

Status Trajectory::Read(uint32_t t, uint32_t i, uint64_t offset, std::span<std::byte> out,
                        bool verify) const {
  if (!impl_->members[t].column.Find(i)) return Lacks(*this, t, i);
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, impl_->Open(t, *impl_->readers));
  DSCKPT_ASSIGN_OR_RETURN(const LogicalTensorInfo info,
                          checkpoint.FindTensor(impl_->tables.name(i)));
  return checkpoint.ReadBytes(info.ordinal, offset, out, verify);
}

Result<Tensor> Trajectory::View(uint32_t t, uint32_t i) const {
  const auto form = Form(t, i);
  if (!form) return Lacks(*this, t, i);
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint(t));
  DSCKPT_ASSIGN_OR_RETURN(const LogicalTensorInfo info,
                          checkpoint.FindTensor(impl_->tables.name(i)));
  for (const PieceLocation& at : checkpoint.Pieces(info.ordinal)) {
    DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint.OpenShard(at.shard));
    if (at.tensor >= file.tensor_count()) continue;
    const TensorInfo stored = file.tensor(at.tensor);
    if (IsAll(info, stored, at.piece)) return file.View(stored.name);
  }
  return Status(StatusCode::kUnsupported, "tensor " + QuotedName(info.name) +
                                              " is stored in pieces: there is no view of it; read "
                                              "it instead")
      .WithPath(path(t));
}

}  // namespace dsckpt

#ifndef DSCKPT_WRITER_GROUP_PUBLISH_H_
#define DSCKPT_WRITER_GROUP_PUBLISH_H_

// Makes an attempt the checkpoint of its name, or makes sure that it never will be.

#include "dsckpt/coordinator.h"
#include "dsckpt/status.h"
#include "format/manifest/manifest.h"
#include "io/error.h"
#include "run/run_layout.h"

namespace dsckpt {

using run::AttemptPaths;

/// Called with the name of each step of the protocol when it was taken. For tests, which end or
/// stop the process there; null outside of them.
using CheckpointStepHook = void (*)(const char* step);
void SetCheckpointStepHook(CheckpointStepHook hook);
void CheckpointStep(const char* step);

/// From how many bytes on the pieces of a manifest are in parts. For tests, which cannot save a
/// real limit's worth; kMaxManifestBytes outside of them.
void SetManifestLimit(uint64_t max_bytes);

/// Rank 0: whether the attempt may stand under its name. A checkpoint there gives way where it is
/// to be replaced, and, in a `run` that has an order of saves, where training has left it behind.
/// Returns whether anything does; kAlreadyExists.
Result<bool> CheckTarget(const AttemptPaths& paths, bool replace, bool run);

/// Rank 0, all shards of `manifest` being durable in the attempt's directory: makes them the
/// checkpoint. `replaces`: as CheckTarget() said. Any error but kDurabilityUnknown: nothing was
/// published, and nobody will; kTimedOut: another rank gave the attempt up.
Status PublishAttempt(const AttemptPaths& paths, const format::ManifestColumns& manifest,
                      bool replaces, Coordinator::Clock::time_point deadline, const io::Warn& warn);

/// Ends, forwards or not at all, an attempt that a crash stopped between writing its manifest and
/// publishing it in place.
Status FinishInPlace(const AttemptPaths& paths);

/// After rank 0's decision not to publish: removes what this attempt has, late shards included.
void DiscardAttempt(const AttemptPaths& paths);

/// `latest` may name the checkpoint before.
Status LatestUnknown(const AttemptPaths& paths, const Status& why);

/// A rank that heard nothing in time decides itself: takes the attempt's directory away, so that
/// nobody can publish it any more, or finds it published. OK: published, durable and, with
/// `moves_latest`, what `latest` names; kTimedOut: it never will be; kDurabilityUnknown: it is, or
/// may be, but a power cut may undo it, or `latest` names another.
Status GiveUpAttempt(const AttemptPaths& paths, bool moves_latest);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_PUBLISH_H_

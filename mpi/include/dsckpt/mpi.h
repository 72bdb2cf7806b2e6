#ifndef DSCKPT_MPI_H_
#define DSCKPT_MPI_H_

// JoinMpi.

#include <mpi.h>

#include <memory>

#include "dsckpt/coordinator.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// Coordinates through MPI, on a duplicate of `communicator` that it owns. Collective: all ranks
/// call it, and all drop the result before MPI_Finalize. Uses point-to-point messages only, so that
/// a rank that fails makes the others time out, not hang, as far as the MPI library goes on after a
/// failure (most end the job by default). kFailedPrecondition: MPI is not initialized with
/// MPI_THREAD_MULTIPLE, which checkpoints that commit behind the training loop need.
Result<std::shared_ptr<Coordinator>> JoinMpi(MPI_Comm communicator);

}  // namespace dsckpt

#endif  // DSCKPT_MPI_H_

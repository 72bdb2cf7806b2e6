#ifndef DSCKPT_MPI_H_
#define DSCKPT_MPI_H_

// JoinMpi.

#include <mpi.h>

#include <memory>

#include "dsckpt/coordinator.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// Joins a group that talks through MPI, on a duplicate of `communicator` that the coordinator owns
/// (spec/commit.md, "MPI"). The call is collective: all ranks make it, and all drop the result
/// before MPI_Finalize. Afterwards only point-to-point messages are used, so that a rank that fails
/// makes the others time out and not hang, as far as the MPI library goes on after a failure (most
/// end the job by default).
/// Errors: kFailedPrecondition when MPI is not initialized with MPI_THREAD_MULTIPLE, which
/// checkpoints that are committed in the background need.
Result<std::shared_ptr<Coordinator>> JoinMpi(MPI_Comm communicator);

}  // namespace dsckpt

#endif  // DSCKPT_MPI_H_

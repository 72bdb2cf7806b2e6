#ifndef DSCKPT_DSCKPT_H_
#define DSCKPT_DSCKPT_H_

// The whole C++ API of dsckpt. Only dsckpt/torch.h and dsckpt/mpi.h are apart: they need the
// headers of PyTorch and of MPI.

#include "dsckpt/analysis.h"             // IWYU pragma: export
#include "dsckpt/average.h"              // IWYU pragma: export
#include "dsckpt/checkpoint.h"           // IWYU pragma: export
#include "dsckpt/checkpoint_writer.h"    // IWYU pragma: export
#include "dsckpt/coordinator.h"          // IWYU pragma: export
#include "dsckpt/device.h"               // IWYU pragma: export
#include "dsckpt/dtype.h"                // IWYU pragma: export
#include "dsckpt/encoding.h"             // IWYU pragma: export
#include "dsckpt/engine.h"               // IWYU pragma: export
#include "dsckpt/file.h"                 // IWYU pragma: export
#include "dsckpt/gram.h"                 // IWYU pragma: export
#include "dsckpt/limits.h"               // IWYU pragma: export
#include "dsckpt/merge.h"                // IWYU pragma: export
#include "dsckpt/operand.h"              // IWYU pragma: export
#include "dsckpt/output_directory.h"     // IWYU pragma: export
#include "dsckpt/piece.h"                // IWYU pragma: export
#include "dsckpt/provider.h"             // IWYU pragma: export
#include "dsckpt/run_layout.h"           // IWYU pragma: export
#include "dsckpt/source.h"               // IWYU pragma: export
#include "dsckpt/state.h"                // IWYU pragma: export
#include "dsckpt/status.h"               // IWYU pragma: export
#include "dsckpt/tensor_statistics.h"    // IWYU pragma: export
#include "dsckpt/trajectory.h"           // IWYU pragma: export
#include "dsckpt/trajectory_events.h"    // IWYU pragma: export
#include "dsckpt/trajectory_measures.h"  // IWYU pragma: export
#include "dsckpt/tree.h"                 // IWYU pragma: export
#include "dsckpt/verify.h"               // IWYU pragma: export
#include "dsckpt/version.h"              // IWYU pragma: export

#endif  // DSCKPT_DSCKPT_H_

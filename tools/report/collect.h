#ifndef DSCKPT_TOOLS_REPORT_COLLECT_H_
#define DSCKPT_TOOLS_REPORT_COLLECT_H_

#include "tools/report/report.h"
#include "tools/trace/trace.h"

// From a run to what the page says of it.

namespace dsckpt::tools {

/// Everything but title and runs. REQUIRES: something is selected.
Report CollectReport(const Trace& trace);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_REPORT_COLLECT_H_

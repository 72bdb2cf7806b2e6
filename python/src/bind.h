#ifndef DSCKPT_PYTHON_BIND_H_
#define DSCKPT_PYTHON_BIND_H_

#include <nanobind/nanobind.h>

namespace dsckpt::python {

void BindWalker(nanobind::module_& module);
void BindEngine(nanobind::module_& module);
void BindCheckpointWriter(nanobind::module_& module);
void BindFile(nanobind::module_& module);
void BindCheckpoint(nanobind::module_& module);
void BindTrajectory(nanobind::module_& module);
void BindTable(nanobind::module_& module);
void BindMeasures(nanobind::module_& module);
void BindAverage(nanobind::module_& module);
void BindTools(nanobind::module_& module);
void BindAnalysis(nanobind::module_& module);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_BIND_H_

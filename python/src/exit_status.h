#ifndef DSCKPT_PYTHON_EXIT_STATUS_H_
#define DSCKPT_PYTHON_EXIT_STATUS_H_

namespace dsckpt::python {

/// From here on this process ends with status 1 where it would have ended with 0. It ends as ever:
/// all that the interpreter and the C library do at exit is done. A second call does nothing.
void FailAtExit();

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_EXIT_STATUS_H_

#ifndef DSCKPT_MERGE_NUMBER_TEXT_H_
#define DSCKPT_MERGE_NUMBER_TEXT_H_

#include <string>

#include "dsckpt/tree.h"

// Numbers of a state tree as text that says exactly which number it is.

namespace dsckpt::merge {

/// The shortest text that reads back to the same double, always with a point or an exponent: "1.5",
/// "1.0", "1e+20"; else "nan", "inf" or "-inf".
std::string DoubleText(double number);

/// Decimal; above 1,024 bytes of magnitude hexadecimal, "0x...", for decimal digits would take
/// quadratic time.
std::string BigIntText(const BigInt& number);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_NUMBER_TEXT_H_

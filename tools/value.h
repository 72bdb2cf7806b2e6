#ifndef DSCKPT_TOOLS_VALUE_H_
#define DSCKPT_TOOLS_VALUE_H_

// Tree values as JSON and text.

#include <string>

#include "dsckpt/file.h"
#include "dsckpt/tree.h"
#include "tools/terminal/json.h"

// Leaves, attributes and the state tree as JSON and as text.
//
// JSON has null, booleans, numbers, strings, lists and string-keyed objects; whatever else a tree
// holds is an object with one key that begins with '$':
//   {"$bigint":"-123"}         decimal, or "0x..." above kDecimalBytes of magnitude
//   {"$float":"nan"}           "nan", "inf", "-inf"
//   {"$complex":[re,im]}       numbers, or {"$float":...}
//   {"$bytes":"base64"}
//   {"$tuple":[...]}
//   {"$dict":[[key,value],...]}  a dict with an int key, or with a key that begins with '$'
//   {"$tensor":name} {"$alias":name} {"$object":name}
//   {"$tag":tag,"value":...}   around a value with a finer type

namespace dsckpt::tools {

void WriteValueJson(JsonWriter& json, const Value& value);
/// The node and all below it. At most kMaxTreeDepth deep, which the library checks at open.
void WriteNodeJson(JsonWriter& json, const Node& node);
/// {"name":{"$tensor":"name"},...}: what a file without a tree stands for.
void WriteFlatTreeJson(JsonWriter& json, const File& file);

/// One printable line: strings quoted, long bytes shortened.
std::string ValueText(const Value& value);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_VALUE_H_

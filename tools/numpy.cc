#include "tools/numpy.h"

namespace dsckpt::tools {

std::string NumpyHeader(const std::string& descr, const std::vector<int64_t>& shape) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (const int64_t size : shape) dict += std::to_string(size) + ", ";
  if (shape.size() > 1) dict.resize(dict.size() - 2);
  if (shape.size() == 1) dict.resize(dict.size() - 1);
  dict += "), }";
  // Version 1 has a length of two bytes.
  const size_t length_bytes = dict.size() + 80 > 65535 ? 4 : 2;
  const size_t before = 8 + length_bytes;
  dict.append(63 - (before + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += length_bytes == 2 ? '\x01' : '\x02';
  header += '\0';
  for (size_t i = 0; i < length_bytes; ++i) header += static_cast<char>(dict.size() >> (8 * i));
  return header + dict;
}

}  // namespace dsckpt::tools

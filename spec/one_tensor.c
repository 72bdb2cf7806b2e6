/* Prints the bytes of one tensor of a shard as hexadecimal digits: one_tensor FILE NAME.
 * C11, no library, for little-endian machines; docs/how-to/read-one-tensor.md explains each line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char* data; /* the index */
#define GET(type, name) \
  static type name(uint64_t at) { type value; memcpy(&value, data + at, sizeof value); return value; }
GET(uint16_t, u16) GET(uint32_t, u32) GET(int32_t, i32) GET(uint64_t, u64)

/* Where the table or vector of a field begins (appendix A). */
static uint64_t child(uint64_t table, int field) {
  uint64_t at = table + u16(table - i32(table) + 4 + 2 * field);
  return at + u32(at);
}

int main(int argc, char** argv) {
  static unsigned char footer[128]; /* section 5 */
  FILE* file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  if (!file || fseek(file, -128, SEEK_END) || fread(footer, 128, 1, file) != 1) return 2;
  data = footer;
  if (memcmp(footer + 120, "\x89" "DSC\r\n\x1a\n", 8) || u16(56) != 1 || u64(64) != 0) return 2;
  const uint64_t index_offset = u64(24), index_bytes = u64(32);
  unsigned char* index = malloc(index_bytes); /* section 6 */
  if (!index || fseek(file, (long)index_offset, SEEK_SET) || fread(index, index_bytes, 1, file) != 1) return 2;
  data = index;
  const uint64_t tensors = child(u32(0), 3), names = child(tensors, 0), payload = child(tensors, 4);
  const uint64_t heap = child(names, 0) + 4, ends = child(names, 1) + 4, count = u32(ends - 4);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t begin = i == 0 ? 0 : u32(ends + 4 * (i - 1)), length = u32(ends + 4 * i) - begin;
    if (length != strlen(argv[2]) || memcmp(data + heap + begin, argv[2], length)) continue;
    if (data[child(payload, 3) + 4 + i] != 0) return 3; /* compressed: section 7 */
    const uint64_t offset = u64(child(payload, 0) + 4 + 8 * i), bytes = u64(child(payload, 1) + 4 + 8 * i);
    fseek(file, (long)offset, SEEK_SET);
    for (uint64_t k = 0; k < bytes; ++k) printf("%02x", (unsigned)fgetc(file));
    return printf("\n") < 0;
  }
  return 1; /* no such tensor */
}

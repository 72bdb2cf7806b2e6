/* A C program outside the project: opens what the C++ one saved. */
#include <dsckpt/c.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dsckpt_error error;
  dsckpt_file* file = NULL;
  if (dsckpt_file_open(argv[1], NULL, &file, &error) != DSCKPT_OK) {
    puts(error.message);
    return 1;
  }
  const uint32_t tensors = dsckpt_file_tensor_count(file);
  dsckpt_file_destroy(file);
  return tensors == 1 ? 0 : 1;
}

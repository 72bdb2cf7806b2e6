// A program outside the project: saves one tensor with the installed library, reads it back.
#include <dsckpt/dsckpt.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<float> weights = {1, 2, 3};
  dsckpt::State state;
  state.AddTensor("weights", std::span(weights));
  if (const dsckpt::Status saved = dsckpt::SaveFile(argv[1], state); !saved.ok()) {
    std::puts(saved.ToString().c_str());
    return 1;
  }
  weights = {0, 0, 0};
  const auto file = dsckpt::File::Open(argv[1]);
  if (!file.ok() || !file.value().Restore(state).ok()) return 1;
  return weights == std::vector<float>{1, 2, 3} ? 0 : 1;
}

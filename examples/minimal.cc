// The README's example: save while the values stay in use, then read them without a copy.

#include <cstdio>
#include <vector>

#include "dsckpt/dsckpt.h"

int main() {
  std::vector<float> weights(1 << 20, 0.5f);
  int64_t step = 7;
  dsckpt::State state;
  state.AddTensor<float>("model/weights", weights);
  state.AddAttribute("step", &step);

  auto engine = dsckpt::Engine::Create().value();
  auto save = engine->Save("model.dsckpt", state).value();  // returns at once
  if (!engine->Fence().ok()) return 1;                      // before the weights change
  weights[0] = 1.0f;
  if (!save.WaitDurable().ok()) return 1;

  auto file = dsckpt::File::Open("model.dsckpt").value();
  auto tensor = file.View("model/weights").value();  // the mapped file itself
  auto values = tensor.As<float>().value();
  std::printf("%zu values, the first is %g\n", values.size(), values[0]);
  return values[0] == 0.5f ? 0 : 1;
}

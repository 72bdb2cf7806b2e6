// Trains a small language model and saves its whole state while it trains. Kill it at any moment
// and start it again: it goes on from the last complete checkpoint, bit for bit as if nothing had
// happened.
//
//   train --text FILE [--dir DIR] [--steps N] [--every N] [--log FILE]

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "char_model.h"
#include "dsckpt/dsckpt.h"

namespace {

struct Options {
  std::string text, dir = ".", log;
  int64_t steps = 300, every = 10;
};

// What a checkpoint holds: registered once, used to save and to restore.
dsckpt::State StateOf(CharModel& model, int64_t* step, double* loss) {
  dsckpt::State state;
  for (CharModel::Param& p : model.params) {
    // Only Update() changes these: they are captured behind the computation.
    state.AddTensor("params/" + p.name, p.value.data(), dsckpt::kF32, {p.rows, p.columns});
    state.AddTensor("adam/m/" + p.name, p.m.data(), dsckpt::kF32, {p.rows, p.columns});
    state.AddTensor("adam/v/" + p.name, p.v2.data(), dsckpt::kF32, {p.rows, p.columns});
  }
  // Drawing a batch changes this one: it is copied inside Save().
  state.AddBytes("rng", &model.rng, sizeof model.rng);
  state.AddAttribute("step", step);
  state.AddAttribute("loss", loss);
  return state;
}

// kNotFound: no checkpoint yet. Anything else that is wrong with one is the caller's to see.
dsckpt::Status Resume(const std::string& path, const dsckpt::State& state) {
  DSCKPT_ASSIGN_OR_RETURN(const dsckpt::File file, dsckpt::File::Open(path));
  return file.Restore(state);
}

dsckpt::Status Train(CharModel& model, const Options& options, std::FILE* log) {
  int64_t step = 0;
  double loss = 0;
  const std::string path = options.dir + "/model.dsckpt";
  const dsckpt::State state = StateOf(model, &step, &loss);
  DSCKPT_ASSIGN_OR_RETURN(const auto engine,
                          dsckpt::Engine::Create({.pool_bytes = 8 * dsckpt::kMiB}));
  if (const auto status = Resume(path, state); status.ok()) {
    std::printf("resumed at step %" PRId64 "\n", step);
  } else if (status.code() != dsckpt::StatusCode::kNotFound) {
    return status;
  }
  while (step < options.steps) {
    loss = model.ForwardBackward();  // the last save is captured and written meanwhile
    DSCKPT_RETURN_IF_ERROR(engine->Fence());
    model.Update(++step);
    if (log != nullptr) std::fprintf(log, "%" PRId64 " %a\n", step, loss), std::fflush(log);
    if (step % 50 == 0) std::printf("step %4" PRId64 "  loss %.4f\n", step, loss);
    if (step % options.every == 0) DSCKPT_RETURN_IF_ERROR(engine->Save(path, state).status());
  }
  return engine->WaitDurable();
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--text")
      options.text = argv[i + 1];
    else if (name == "--dir")
      options.dir = argv[i + 1];
    else if (name == "--log")
      options.log = argv[i + 1];
    else if (name == "--steps")
      options.steps = std::atoll(argv[i + 1]);
    else if (name == "--every")
      options.every = std::atoll(argv[i + 1]);
    else
      return false;
  }
  return argc % 2 == 1 && !options.text.empty() && options.steps >= 0 && options.every > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fputs("usage: train --text FILE [--dir DIR] [--steps N] [--every N] [--log FILE]\n",
               stderr);
    return 2;
  }
  std::ifstream in(options.text, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.size() <= CharModel::kContext) {
    std::fprintf(stderr, "train: '%s' cannot be read or is too short\n", options.text.c_str());
    return 2;
  }
  std::FILE* log = nullptr;
  if (!options.log.empty() && (log = std::fopen(options.log.c_str(), "w")) == nullptr) {
    std::fprintf(stderr, "train: %s: %s\n", options.log.c_str(), std::strerror(errno));
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // progress is seen before a kill
  CharModel model(text);
  const dsckpt::Status status = Train(model, options, log);
  if (log != nullptr) std::fclose(log);
  if (!status.ok()) std::fprintf(stderr, "train: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// A libtorch model: saved while it stays in use, then restored in place. Build it against the
// headers and libraries of PyTorch (see include/dsckpt/torch.h).

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>

#include "dsckpt/dsckpt.h"
#include "dsckpt/torch.h"

namespace {

dsckpt::Status SaveAndRestore() {
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8));
  at::Tensor momentum = torch::arange(12, torch::kFloat).view({3, 4}).t();
  dsckpt::State state;
  DSCKPT_RETURN_IF_ERROR(dsckpt::AddModule(state, "model", *model));
  DSCKPT_RETURN_IF_ERROR(dsckpt::AddTensor(state, "momentum", momentum));

  DSCKPT_ASSIGN_OR_RETURN(const auto engine, dsckpt::Engine::Create());
  DSCKPT_ASSIGN_OR_RETURN(const auto save, engine->Save("libtorch.dsckpt", state));
  const at::Tensor before = momentum.clone();
  DSCKPT_RETURN_IF_ERROR(engine->Fence());  // before the tensors change
  momentum.zero_();
  DSCKPT_RETURN_IF_ERROR(save.WaitDurable());

  DSCKPT_ASSIGN_OR_RETURN(const auto file, dsckpt::File::Open("libtorch.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const at::Tensor view, dsckpt::ViewTensor(file, "momentum"));
  DSCKPT_RETURN_IF_ERROR(file.Restore(state));  // everything that was registered
  DSCKPT_RETURN_IF_ERROR(dsckpt::LoadTensor(file, "momentum", momentum));  // or one by one
  if (view.equal(before) && momentum.equal(before)) return {};
  return dsckpt::Status(dsckpt::StatusCode::kInternal, "the tensor changed on its way");
}

}  // namespace

int main() {
  const dsckpt::Status status = SaveAndRestore();
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

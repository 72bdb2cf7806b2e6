#ifndef DSCKPT_MERGE_PROVIDER_H_
#define DSCKPT_MERGE_PROVIDER_H_

// The files that a merge writes as providers: tensors are put together when they are asked for.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dsckpt/checkpoint.h"
#include "dsckpt/merge.h"
#include "dsckpt/provider.h"
#include "merge/cancellation.h"
#include "merge/made.h"
#include "merge/metadata.h"
#include "merge/plan.h"
#include "merge/tree.h"

namespace dsckpt::merge {

/// All that the outputs of a merge are written from, and what is known when they are.
struct MergeInput {
  const Checkpoint& checkpoint;
  const MergePlan& plan;
  const MergedTree& tree;
  const Metadata& metadata;  ///< goes into every file
  const MergeOptions& options;
  const MakeTensor& make;  ///< null: elements are those of the checkpoint
  Cancellation& cancellation;
  std::atomic<uint64_t> overflows = 0;  ///< elements that a cast made infinite
};

/// One output file of a merge as a provider: tensors assembled while they are written, and in the
/// first file of dsckpt ones objects, leaves and attributes. Borrows the input.
class MergeProvider final : public StateProvider {
 public:
  MergeProvider(MergeInput& input, size_t file);
  void Describe(Description& description) const override;

 private:
  void DescribeTensor(Description& description, const Key& key, uint32_t tensor,
                      std::string_view tag) const;
  void DescribeFlat(Description& description) const;
  void DescribeObject(Description& description, const Key& key, const MergedTree::ObjectRef& object,
                      std::string_view tag) const;
  void DescribeAttributes(Description& description) const;

  MergeInput& input_;
  const Checkpoint& checkpoint_;
  const MergePlan& plan_;
  const MergedTree& tree_;
  const size_t file_;
  const bool rest_;
};

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_PROVIDER_H_

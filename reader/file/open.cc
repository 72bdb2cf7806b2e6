// File::Open.

#include <utility>

#include "io/target.h"
#include "reader/file/file_impl.h"
#include "run/shard_index.h"

namespace dsckpt {

namespace reader {

Status InFile(Status status, const io::InputFile& input) {
  if (status.ok() || !status.path().empty() || input.path().empty()) return status;
  return std::move(status).WithPath(input.path());
}

DTypeInfo DescribeDType(const format::DTypeRecord& record) {
  const auto code = static_cast<DType>(record.code);
  if (const auto known = FindDType(code)) return *known;
  return {code, record.bits, record.block_elements, record.block_bytes, "unknown", false, false};
}

namespace {

Status LoadShardIndex(const format::Footer& footer, File::Impl& impl) {
  impl.footer = footer;
  impl.header_bytes = footer.data_begin;
  DSCKPT_ASSIGN_OR_RETURN(run::ShardIndex index, run::ReadShardIndex(*impl.input, footer));
  impl.index_memory = std::move(index.memory);
  impl.index = index.view;
  return Status();
}

Status LoadSafetensorsIndex(File::Impl& impl) {
  impl.format = FileFormat::kSafetensors;
  DSCKPT_ASSIGN_OR_RETURN(SafetensorsIndex read, ReadSafetensorsIndex(*impl.input));
  impl.header_bytes = read.header_bytes;
  impl.columns = std::move(read.columns);
  impl.index = format::ViewOf(*impl.columns);
  return Status();
}

TreeData TreeOf(const format::IndexView& index, const format::TreeView& tree) {
  return {tree, index.tensor_names, index.alias_names, index.object_names, nullptr};
}

Status Load(File::Impl& impl, const OpenOptions& options) {
  impl.threads = options.threads;
  DSCKPT_ASSIGN_OR_RETURN(const run::FileEnds ends, run::ReadEnds(*impl.input));
  DSCKPT_ASSIGN_OR_RETURN(const format::Classified what,
                          format::Classify(ends.head, ends.tail, impl.input->size()));
  DSCKPT_RETURN_IF_ERROR(what.kind == format::FileKind::kShard ? LoadShardIndex(what.footer, impl)
                                                               : LoadSafetensorsIndex(impl));
  for (const format::DTypeRecord& record : impl.index.dtypes) {
    impl.dtypes.push_back(DescribeDType(record));
  }
  impl.tree = TreeOf(impl.index, impl.index.tree);
  impl.attributes = TreeOf(impl.index, impl.index.attributes);
  if (options.map) {
    // A file system that refuses is no error: views read instead.
    if (auto mapping = io::Mapping::Map(*impl.input); mapping.ok()) {
      impl.mapping = std::move(mapping).value();
      impl.input->Release(impl.mapping);
    }
  }
  return Status();
}

Result<File> OpenInput(std::shared_ptr<const io::InputFile> input, const OpenOptions& options) {
  auto impl = std::make_shared<File::Impl>();
  impl->input = std::move(input);
  DSCKPT_RETURN_IF_ERROR(InFile(Load(*impl, options), *impl->input));
  return File(std::move(impl));
}

/// A path that nothing stands at may be one that a first save will publish.
Status WhyMissing(const std::string& path, const Status& status) {
  if (status.code() != StatusCode::kNotFound) return status;
  const auto target = io::ResolveTarget(path);
  const auto temporary = target.ok() ? io::FindSaveUnderWay(*target) : std::nullopt;
  if (!temporary) return status;
  return Status(status.code(), status.message() + "; its first save is under way, in '" +
                                   *temporary + "': wait until that is durable")
      .WithErrno(status.error_number())
      .WithPath(path);
}

}  // namespace
}  // namespace reader

Result<File> File::Open(const std::string& path, const OpenOptions& options) {
  auto input = io::InputFile::Open(path);
  if (!input.ok()) return reader::WhyMissing(path, input.status());
  return reader::OpenInput(std::move(input).value(), options);
}

Result<File> File::Open(std::shared_ptr<const Source> source, const OpenOptions& options) {
  if (!source) return Status(StatusCode::kInvalidArgument, "File::Open got a null Source");
  return reader::OpenInput(io::InputFile::Of(std::move(source)), options);
}

}  // namespace dsckpt

// File::Open: finds out what a file is and reads its index.

#include <algorithm>
#include <utility>

#include "format/checksum.h"
#include "format/header/listing.h"
#include "io/temporary.h"
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

/// `status` with what the header's sum says of the cause, and what helps.
Status Advise(const Status& status, std::span<const std::byte> region,
              const format::Footer& footer) {
  const bool damaged = format::Hash64(region) != footer.header_xxh3_64;
  return Status(status.code(),
                status.message() +
                    (damaged ? ". The header is damaged: its checksum is wrong"
                             : ". The file was made so: its checksums are right") +
                    "; programs that read safetensors see other tensors than dsckpt, or none. Use "
                    "another copy; `dsckpt verify` lists what is wrong, and `dsckpt merge "
                    "--ignore-header` "
                    "(OpenOptions::ignore_header) reads what the index says")
      .WithOffset(static_cast<uint64_t>(status.offset()));
}

/// Rule F11. `head`: the first page, which was read already.
Status CheckHeader(const File::Impl& impl, std::span<const std::byte> head) {
  const format::Footer& footer = impl.footer;
  std::span<const std::byte> region = head.first(std::min<size_t>(head.size(), footer.data_begin));
  io::AlignedBuffer whole;
  if (footer.data_begin > region.size()) {
    DSCKPT_ASSIGN_OR_RETURN(whole, io::AlignedBuffer::Allocate(footer.data_begin, kPageBytes));
    std::copy(region.begin(), region.end(), whole.bytes().begin());
    DSCKPT_RETURN_IF_ERROR(impl.input->ReadAt(region.size(), whole.bytes().subspan(region.size())));
    region = whole.bytes();
  }
  const std::string_view text(reinterpret_cast<const char*>(region.data()), region.size());
  const Status status =
      format::CheckListing(text, impl.index, footer.tail_begin, footer.file_bytes);
  return status.ok() ? status : Advise(status, region, footer);
}

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
  if (what.kind == format::FileKind::kShard) {
    DSCKPT_RETURN_IF_ERROR(LoadShardIndex(what.footer, impl));
    if (!options.ignore_header) DSCKPT_RETURN_IF_ERROR(CheckHeader(impl, ends.head));
  } else {
    DSCKPT_RETURN_IF_ERROR(LoadSafetensorsIndex(impl));
  }
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

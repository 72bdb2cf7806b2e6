#ifndef DSCKPT_C_H_
#define DSCKPT_C_H_

#include <stddef.h>
#include <stdint.h>

/// \file
/// dsckpt for C, and the stable binary interface: functions are only added, structs only grow.
///
/// Errors. Every function that can fail returns a DSCKPT_* code, 0 for success, and takes as its
/// last argument an optional `dsckpt_error` that it fills on failure (and leaves alone on success).
/// There is no global or per-thread error state. No C++ exception leaves a function.
///
/// Structs that begin with `size` grow in later versions. The caller sets `size` to sizeof the
/// struct and zeroes the rest, as the DSCKPT_INIT macro does; zero means the default everywhere.
/// A null options pointer means all defaults. Bytes beyond what this library knows must be zero
/// (else DSCKPT_UNSUPPORTED).
///
/// Ownership. Functions with a parameter `out` that points to a pointer hand out handles that the
/// caller gives back to the `*_destroy` function of their type; destroying null does nothing.
/// Strings and arrays that come in are copied before the call returns, tensor memory is not. Names
/// and paths are NUL-terminated UTF-8.
///
/// Threads. All handles may be used by any threads at once (destroying one is the last use), except
/// that a `dsckpt_state` is for one thread at a time while it is being filled. Callbacks that run
/// on engine threads say so.
///
/// Sizes and offsets are in bytes, strides in elements, durations in nanoseconds.

#if defined(__cplusplus)
extern "C" {
#endif
/* Visible outside the shared library. */
#pragma GCC visibility push(default)

/// A struct with its `size` set and the rest zero, in C:
/// `dsckpt_engine_options options = DSCKPT_INIT(dsckpt_engine_options);`
#define DSCKPT_INIT(type) ((type){.size = sizeof(type)})

/// Results; the same numbers as dsckpt::StatusCode (dsckpt/status.h), which says more of each.
enum {
  DSCKPT_OK = 0,
  DSCKPT_INVALID_ARGUMENT = 1,
  DSCKPT_NOT_FOUND = 2,
  DSCKPT_ALREADY_EXISTS = 3,
  DSCKPT_PERMISSION_DENIED = 4,
  DSCKPT_NO_SPACE = 5,
  DSCKPT_IO_ERROR = 6,
  DSCKPT_NOT_CHECKPOINT = 7,
  DSCKPT_TRUNCATED = 8,
  DSCKPT_TRAILING_BYTES = 9,
  DSCKPT_CORRUPT = 10,
  DSCKPT_UNSUPPORTED = 11,
  DSCKPT_LIMIT_EXCEEDED = 12,
  DSCKPT_CANCELLED = 13,
  DSCKPT_DURABILITY_UNKNOWN = 14,
  DSCKPT_FAILED_PRECONDITION = 15,
  DSCKPT_OUT_OF_MEMORY = 16,
  DSCKPT_MISMATCH = 17,
  DSCKPT_INTERNAL = 18,
  DSCKPT_TIMED_OUT = 19,
  DSCKPT_INCOMPLETE = 20
};

/// What went wrong, for the caller's own use and for a person to read. Never grows.
typedef struct dsckpt_error {
  int32_t code;          ///< The DSCKPT_* code that the function returned.
  int32_t error_number;  ///< The operating system's errno, or 0.
  int64_t offset;        ///< Byte offset in the file concerned, or -1.
  char message[1008];  ///< With path and errno text; NUL-terminated UTF-8, cut where it is longer.
} dsckpt_error;

/// Element types; the same numbers as dsckpt::DType (dsckpt/dtype.h).
enum {
  DSCKPT_BOOL = 1,
  DSCKPT_U8 = 2,
  DSCKPT_I8 = 3,
  DSCKPT_U16 = 4,
  DSCKPT_I16 = 5,
  DSCKPT_U32 = 6,
  DSCKPT_I32 = 7,
  DSCKPT_U64 = 8,
  DSCKPT_I64 = 9,
  DSCKPT_F16 = 10,
  DSCKPT_BF16 = 11,
  DSCKPT_F32 = 12,
  DSCKPT_F64 = 13,
  DSCKPT_C64 = 14,
  DSCKPT_C128 = 15,
  DSCKPT_F8_E4M3 = 16,
  DSCKPT_F8_E5M2 = 17,
  DSCKPT_F8_E8M0 = 18,
  DSCKPT_F8_E4M3FNUZ = 19,
  DSCKPT_F8_E5M2FNUZ = 20,
  DSCKPT_F6_E2M3 = 21,
  DSCKPT_F6_E3M2 = 22,
  DSCKPT_F4 = 23,
  DSCKPT_I4 = 24,
  DSCKPT_U4 = 25
};

/// How bytes are stored (dsckpt/encoding.h).
enum { DSCKPT_RAW = 0, DSCKPT_ZSTD = 1, DSCKPT_BYTE_PLANE_ZSTD = 2 };

/// When memory may be read (dsckpt::Capture): lazily, until the fence that guards the next update,
/// or inside dsckpt_engine_save.
enum { DSCKPT_UNTIL_FENCE = 0, DSCKPT_AT_SAVE = 1 };

/// dsckpt::WhenBusy: what a save does when max_in_flight others are not durable yet.
enum { DSCKPT_BUSY_WAIT = 0, DSCKPT_BUSY_SKIP = 1, DSCKPT_BUSY_REPLACE_QUEUED = 2 };

/// dsckpt::IoBackend.
enum { DSCKPT_IO_AUTO = 0, DSCKPT_IO_URING = 1, DSCKPT_IO_THREADS = 2 };

/// dsckpt::Container.
enum { DSCKPT_CONTAINER_DSCKPT = 0, DSCKPT_CONTAINER_SAFETENSORS = 1 };

/// dsckpt::Event::Kind.
enum {
  DSCKPT_EVENT_FALLBACK = 0,
  DSCKPT_EVENT_SAVE_FAILED = 1,
  DSCKPT_EVENT_DURABILITY = 2,
  DSCKPT_EVENT_NOT_FINITE = 3
};

/// For `device` below: the device runtime is asked which device holds the pointer
/// (dsckpt/device.h). Otherwise the ordinal of a device.
enum { DSCKPT_DEVICE_OF_POINTER = -2 };

/// What saves; see dsckpt::Engine.
typedef struct dsckpt_engine dsckpt_engine;
/// What is saved and restored; see dsckpt::State.
typedef struct dsckpt_state dsckpt_state;
/// One save under way; see dsckpt::SaveHandle.
typedef struct dsckpt_save dsckpt_save;
/// An open file; see dsckpt::File.
typedef struct dsckpt_file dsckpt_file;
/// A tensor in memory; see dsckpt::Tensor.
typedef struct dsckpt_view dsckpt_view;
/// Receives the bytes of an object while it is being saved.
typedef struct dsckpt_sink dsckpt_sink;
/// An open checkpoint of any number of ranks; see dsckpt::Checkpoint.
typedef struct dsckpt_checkpoint dsckpt_checkpoint;
/// The checkpoints of a training run; see dsckpt::RunDirectory.
typedef struct dsckpt_run dsckpt_run;
/// What saves the checkpoints of a group of ranks; see dsckpt::CheckpointWriter.
typedef struct dsckpt_checkpoint_writer dsckpt_checkpoint_writer;
/// One checkpoint under way; see dsckpt::CheckpointHandle.
typedef struct dsckpt_checkpoint_save dsckpt_checkpoint_save;

/// "0.1.0". Static.
const char* dsckpt_version(void);
/// "Corrupt" for DSCKPT_CORRUPT. Static, never null.
const char* dsckpt_code_name(int code);
/// safetensors spelling, "BF16"; "unknown" for an unregistered number. Static, never null.
const char* dsckpt_dtype_name(int dtype);
/// DSCKPT_OK where device memory can be saved and loaded. DSCKPT_UNSUPPORTED, and the error says
/// what is missing: a build with CUDA, a driver, or a device.
int dsckpt_device_support(dsckpt_error* error);

// --- State: what to save and restore (dsckpt/state.h) ------------------------------------------

/// Registers memory once, saves and restores with the same object. Names are paths: "adam/m" is key
/// "m" in dict "adam". Registered memory is borrowed and must outlive its use. Registration errors
/// are sticky: the next save or restore reports the first one, so that the calls below need not be
/// checked one by one. Errors that need the whole state (a name given twice) come from there only.
int dsckpt_state_create(dsckpt_state** out, dsckpt_error* error);
/// Saves that were accepted before do not need it any more.
void dsckpt_state_destroy(dsckpt_state* state);

/// How a piece is given (dsckpt::Piece::Form): as a box, or as a range of the elements of the
/// logical tensor in row-major order.
enum { DSCKPT_PIECE_BOX = 0, DSCKPT_PIECE_FLAT = 1 };

/// The part of a logical tensor that a stored tensor, or a stretch of its elements, holds; see
/// dsckpt::Piece. A logical tensor is what the job calls one tensor, whole, however its elements
/// are split over ranks. Never grows.
typedef struct dsckpt_piece {
  /// The name of the logical tensor.
  const char* logical_name;
  /// `logical_rank` dimensions, without any padding that the job uses.
  const int64_t* logical_shape;
  /// The number of dimensions of the logical tensor.
  size_t logical_rank;
  /// A box: [begin[i], end[i]) of each dimension, stored row-major. Otherwise not used.
  const int64_t* begin;
  /// See `begin`.
  const int64_t* end;
  /// A flat range of elements. Otherwise not used.
  int64_t flat_begin, flat_end;
  /// First element of the piece in the stored tensor's row-major order.
  uint64_t element_offset;
  /// Pieces of one group that is not 0 are declared to be equal copies.
  uint32_t replica_group;
  /// DSCKPT_PIECE_BOX or DSCKPT_PIECE_FLAT.
  int32_t form;
} dsckpt_piece;

/// How one tensor is saved.
typedef struct dsckpt_tensor_options {
  size_t size;
  int32_t capture;         ///< DSCKPT_UNTIL_FENCE or DSCKPT_AT_SAVE.
  int32_t encoding;        ///< DSCKPT_RAW, DSCKPT_ZSTD or DSCKPT_BYTE_PLANE_ZSTD.
  const int64_t* strides;  ///< One a dimension, may be 0 or negative; null: contiguous, row-major.
  /// Called once with `owner`, from any thread, when neither the state nor a save needs the memory
  /// any more. Null: the caller keeps it alive.
  void (*release)(void* owner);
  /// The argument of `release`.
  void* owner;
  /// What the tensor holds of larger ones: `piece_count` pieces, copied. With none the tensor is
  /// a logical tensor of its own, whole.
  const dsckpt_piece* pieces;
  /// The number of `pieces`.
  size_t piece_count;
} dsckpt_tensor_options;

/// A tensor of host memory. By default captured lazily: it must not change between a save and the
/// next dsckpt_engine_fence. Where this fails, `release` is not called.
int dsckpt_state_add_tensor(dsckpt_state* state, const char* name, void* data, int dtype,
                            const int64_t* shape, size_t rank, const dsckpt_tensor_options* options,
                            dsckpt_error* error);
/// A tensor of host memory that can be saved but not restored into.
int dsckpt_state_add_const_tensor(dsckpt_state* state, const char* name, const void* data,
                                  int dtype, const int64_t* shape, size_t rank,
                                  const dsckpt_tensor_options* options, dsckpt_error* error);
/// A tensor of device memory that `stream` (a cudaStream_t; null: the default stream) writes. By
/// default captured lazily: it must not change between a save and the next
/// dsckpt_engine_fence_on_stream or dsckpt_engine_fence. With DSCKPT_AT_SAVE the stream waits on
/// the device until it has been read, the host does not. Restoring writes it after what the stream
/// holds. `strides` are DSCKPT_UNSUPPORTED. Where no device can be used the save or
/// restore says so.
int dsckpt_state_add_device_tensor(dsckpt_state* state, const char* name, void* data, int dtype,
                                   const int64_t* shape, size_t rank, int device, void* stream,
                                   const dsckpt_tensor_options* options, dsckpt_error* error);
/// `bytes` bytes copied inside each save, as an object: RNG state, loader positions, any plain
/// struct. Restoring needs the same size.
int dsckpt_state_add_bytes(dsckpt_state* state, const char* name, void* data, uint64_t bytes,
                           dsckpt_error* error);

/// What is registered at `name` and below it is `rank`'s own: of another name than that of other
/// ranks for whoever reads the files of all together (dsckpt::RankOwn).
int dsckpt_state_rank_own(dsckpt_state* state, const char* name, uint32_t rank,
                          dsckpt_error* error);

/// Serialized bytes, and where they come from: `data`, or `write`.
typedef struct dsckpt_object_source {
  size_t size;
  const char* media_type;  ///< Null: "application/octet-stream".
  /// DSCKPT_RAW or DSCKPT_ZSTD.
  int32_t encoding;
  int32_t reserved;
  /// Either the bytes, read inside each save ...
  const void* data;
  /// The number of bytes at `data`.
  uint64_t bytes;
  /// ... or a function that streams them through dsckpt_sink_write on an engine thread after the
  /// save call has returned, once a save. Must not call the engine. Returns 0, or a DSCKPT_* code
  /// that fails the save.
  int (*write)(void* user, dsckpt_sink* sink);
  /// Receives the stored bytes on restore; returns 0 or a DSCKPT_* code. Null: a restore skips the
  /// object.
  int (*restore)(void* user, const void* data, uint64_t bytes);
  void* user;  ///< Passed to both; must stay valid while a save or restore may call them.
} dsckpt_object_source;

/// Serialized bytes of any size.
int dsckpt_state_add_object(dsckpt_state* state, const char* name,
                            const dsckpt_object_source* source, dsckpt_error* error);
/// REQUIRES: called from inside dsckpt_object_source.write. After a failure the writer must return.
int dsckpt_sink_write(dsckpt_sink* sink, const void* data, uint64_t bytes);

/// Attributes are read through the pointer inside each save and written through it on restore.
int dsckpt_state_add_attribute_int(dsckpt_state* state, const char* name, int64_t* value,
                                   dsckpt_error* error);
/// The same for a floating-point number.
int dsckpt_state_add_attribute_double(dsckpt_state* state, const char* name, double* value,
                                      dsckpt_error* error);
/// `buffer` holds NUL-terminated UTF-8 within `capacity` bytes; a restored text that does not fit
/// fails the restore (DSCKPT_MISMATCH).
int dsckpt_state_add_attribute_string(dsckpt_state* state, const char* name, char* buffer,
                                      size_t capacity, dsckpt_error* error);

// --- Engine: saves behind the computation (dsckpt/engine.h) ------------------------------------

/// How an engine works; see dsckpt::EngineOptions.
typedef struct dsckpt_engine_options {
  size_t size;
  uint64_t pool_bytes;    ///< Staging memory; 0: 1 GiB.
  uint64_t window_bytes;  ///< One write; 0: a sixteenth of the pool, at most 16 MiB.
  int32_t workers;        ///< 0: one a core, at most 8.
  int32_t max_in_flight;  ///< 0: 2.
  int32_t when_busy;      ///< DSCKPT_BUSY_*.
  int32_t io;             ///< DSCKPT_IO_*.
  int32_t buffered_io;    ///< Nonzero: through the page cache.
  /// 1 + the ordinal of a device that this process uses already: the pool is registered with the
  /// device runtime now, which takes up to half a second a GiB. 0: by the first save of device
  /// memory.
  int32_t register_pool_for;
  /// Called on engine threads, one call at a time; `kind` is DSCKPT_EVENT_*, `event` is valid
  /// during the call. Must not call the engine.
  void (*on_event)(void* user, int kind, const dsckpt_error* event);
  /// The first argument of `on_event`.
  void* user;
  /// Memory to take on each device for snapshots, so that fences need not wait for the host; see
  /// dsckpt::EngineOptions.
  uint64_t device_snapshot_bytes;
} dsckpt_engine_options;

/// Long-lived: create one a process and keep it.
int dsckpt_engine_create(const dsckpt_engine_options* options, dsckpt_engine** out,
                         dsckpt_error* error);
/// Waits until every accepted save is durable or failed.
void dsckpt_engine_destroy(dsckpt_engine* engine);

/// Bytes that mean something to those who know the name; see dsckpt::SaveOptions::vendor.
typedef struct dsckpt_vendor_entry {
  const char* name;  ///< A domain of its owner, reversed: "com.example.audit".
  const void* data;  ///< `bytes` bytes; null for none.
  /// The number of bytes.
  size_t bytes;
} dsckpt_vendor_entry;

/// How one file is written; see dsckpt::SaveOptions.
typedef struct dsckpt_save_options {
  size_t size;
  int32_t container;  ///< DSCKPT_CONTAINER_*.
  int32_t reserved;
  const char* metadata_format;         ///< `format` of the safetensors metadata; null: "pt".
  const char* const* metadata_keys;    ///< Further metadata: `metadata_count` keys ...
  const char* const* metadata_values;  ///< ... and values.
  /// The number of metadata keys, and of their values.
  size_t metadata_count;
  int32_t statistics;  ///< Nonzero: record what the elements of tensors are, in numbers.
  int32_t reserved_2;  ///< Zero.
  const dsckpt_vendor_entry* vendor;  ///< Vendor data: `vendor_count` entries; copied.
  /// The number of entries of vendor data.
  size_t vendor_count;
} dsckpt_save_options;

/// Saves `state` as one file at `path`, published atomically when it is durable. Returns when all
/// that is captured at save has been copied. `out` may be null; otherwise it receives a handle to
/// this save, to be destroyed at any time.
int dsckpt_engine_save(dsckpt_engine* engine, const char* path, const dsckpt_state* state,
                       const dsckpt_save_options* options, dsckpt_save** out, dsckpt_error* error);
/// Call before an update changes lazily captured memory: blocks until all of it has been read.
/// Also returns, once, the error of a background save that nobody has looked at.
int dsckpt_engine_fence(dsckpt_engine* engine, dsckpt_error* error);
/// The same before an update of the tensors whose names begin with `prefix` alone; see
/// dsckpt::Engine::Fence for the order in which tensors are read.
int dsckpt_engine_fence_prefix(dsckpt_engine* engine, const char* prefix, dsckpt_error* error);
/// The same for device tensors, without stopping the host: what `stream` is given after this call
/// waits on the device. `prefix` as above; null: all tensors. Returns when all copies concerned are
/// queued; blocks for what the host reads, as dsckpt_engine_fence does.
int dsckpt_engine_fence_on_stream(dsckpt_engine* engine, void* stream, const char* prefix,
                                  dsckpt_error* error);
/// Blocks until every save is durable or failed; returns the first error nobody has looked at.
int dsckpt_engine_wait_durable(dsckpt_engine* engine, dsckpt_error* error);

/// dsckpt::Statistics: totals since the engine was created.
typedef struct dsckpt_statistics {
  size_t size;
  /// How many saves have begun, have become durable, and have failed.
  uint64_t saves_started, saves_durable, saves_failed;
  /// Source bytes that were read, file bytes that were written, and bytes that were copied inside
  /// saves.
  uint64_t captured_bytes, flushed_bytes, at_save_bytes;
  /// Writes that were submitted; the sizes of the pool and of a window in bytes; saves that reused
  /// the layout of the one before.
  uint64_t write_calls, pool_bytes, window_bytes, layouts_reused;
  /// Time inside save calls and inside fences; time that captures waited for windows, and save
  /// calls for room for copies.
  int64_t save_blocked_ns, fence_blocked_ns, window_stall_ns, at_save_stall_ns;
  /// Time that workers copied and hashed, summed over threads; that they encoded; that at least one
  /// write was in flight.
  int64_t copy_hash_busy_ns, encode_busy_ns, write_busy_ns;
  /// Of the newest save: time until it was captured, and until it was durable.
  int64_t last_capture_ns, last_durable_ns;
  /// The pool with which the newest save would have been captured without waiting for storage.
  uint64_t suggested_pool_bytes;
  /// The shortest time between saves that storage keeps up with.
  int64_t suggested_interval_ns;
} dsckpt_statistics;

/// Fills the first `out->size` bytes of `out`.
int dsckpt_engine_statistics(const dsckpt_engine* engine, dsckpt_statistics* out,
                             dsckpt_error* error);

/// Gives the handle back. The save itself goes on.
void dsckpt_save_destroy(dsckpt_save* save);
/// Blocks until all source memory has been read, or the save failed.
int dsckpt_save_wait_captured(const dsckpt_save* save, dsckpt_error* error);
/// Blocks until the file is on storage under its final name, or the save failed.
int dsckpt_save_wait_durable(const dsckpt_save* save, dsckpt_error* error);
/// Asks the save to stop before it publishes; does not wait.
void dsckpt_save_cancel(const dsckpt_save* save);

/// How far a save is.
typedef struct dsckpt_progress {
  size_t size;
  uint64_t total_bytes;     ///< Known file bytes; grows while objects of unknown size stream.
  uint64_t captured_bytes;  ///< Source bytes read.
  uint64_t flushed_bytes;   ///< File bytes on storage, not yet synced.
  /// Nonzero: all source memory has been read.
  int32_t captured;
  /// Nonzero: the file is on storage under its final name.
  int32_t durable;
} dsckpt_progress;

/// Fills the first `out->size` bytes of `out`.
int dsckpt_save_progress(const dsckpt_save* save, dsckpt_progress* out, dsckpt_error* error);

/// Saves and waits until durable, with an engine of its own. For scripts and tools.
int dsckpt_save_file(const char* path, const dsckpt_state* state,
                     const dsckpt_save_options* options, dsckpt_error* error);

// --- File: reading (dsckpt/file.h) -------------------------------------------------------------

/// How a file is opened; see dsckpt::OpenOptions.
typedef struct dsckpt_open_options {
  size_t size;
  int32_t no_map;   ///< Nonzero: views read into memory of their own instead of mapping the file.
  int32_t threads;  ///< For loads and decoding; 0: one a core, at most 8.
  /// Nonzero: a shard is opened although its JSON header lists other tensors than its index, which
  /// alone says what the file holds. For saving what a damaged header left.
  int32_t ignore_header;
  int32_t reserved;  ///< 0.
} dsckpt_open_options;

/// Opens a shard or a plain safetensors file. Cost does not depend on the size of the data.
/// DSCKPT_MISMATCH: the JSON header of a shard lists other tensors than its index.
int dsckpt_file_open(const char* path, const dsckpt_open_options* options, dsckpt_file** out,
                     dsckpt_error* error);
/// Views taken from it stay valid.
void dsckpt_file_destroy(dsckpt_file* file);

/// Text borrowed from a file: `bytes` bytes, valid until the file is destroyed. Not NUL-terminated,
/// and a plain safetensors file may hold NUL inside.
typedef struct dsckpt_text {
  /// The first byte.
  const char* data;
  /// The number of bytes.
  size_t bytes;
} dsckpt_text;

/// What a file says about one tensor. It is valid until the file is destroyed.
typedef struct dsckpt_tensor_info {
  size_t size;
  /// The name of the tensor.
  dsckpt_text name;
  const int64_t* shape;  ///< `rank` dimensions; valid until the file is destroyed.
  /// The number of dimensions.
  size_t rank;
  int32_t dtype;  ///< May be a number that this library does not know.
  /// DSCKPT_RAW, DSCKPT_ZSTD or DSCKPT_BYTE_PLANE_ZSTD.
  int32_t encoding;
  /// The size of the elements, and the size that they take in the file.
  uint64_t raw_bytes, stored_bytes;
  uint64_t offset;   ///< From the start of the file.
  uint32_t ordinal;  ///< Position among the tensors, in name order.
  uint32_t reserved;
} dsckpt_tensor_info;

/// What a file says about one object. It is valid until the file is destroyed.
typedef struct dsckpt_object_info {
  size_t size;
  /// The name of the object.
  dsckpt_text name;
  /// What the bytes are.
  dsckpt_text media_type;
  /// The size of the object, and the size that it takes in the file.
  uint64_t raw_bytes, stored_bytes;
  /// The position of the stored bytes, from the start of the file.
  uint64_t offset;
  /// DSCKPT_RAW or DSCKPT_ZSTD.
  int32_t encoding;
  /// The position among the objects, in name order.
  uint32_t ordinal;
} dsckpt_object_info;

/// Bytes of the file, 0 for a null handle; likewise the counts.
uint64_t dsckpt_file_bytes(const dsckpt_file* file);
/// Nonzero where this library can compute the checksums of what the file holds; see
/// dsckpt::File::verifiable. Other files are read unchecked. 0 for a null handle.
int dsckpt_file_verifiable(const dsckpt_file* file);
/// The number of tensors, without aliases.
uint32_t dsckpt_file_tensor_count(const dsckpt_file* file);
/// The number of aliases.
uint32_t dsckpt_file_alias_count(const dsckpt_file* file);
/// The number of objects.
uint32_t dsckpt_file_object_count(const dsckpt_file* file);
/// The number of entries of vendor data.
uint32_t dsckpt_file_vendor_count(const dsckpt_file* file);
/// One entry of vendor data, by its position in name order. `name` and `data` are valid until the
/// file is destroyed; each may be null.
int dsckpt_file_vendor(const dsckpt_file* file, uint32_t index, dsckpt_text* name,
                       dsckpt_text* data, dsckpt_error* error);
/// The digest of all that the file holds, as 32 hexadecimal digits and a NUL; see
/// dsckpt::File::ContentDigest. DSCKPT_NOT_FOUND: the file records none.
int dsckpt_file_content_digest(const dsckpt_file* file, char out[33], dsckpt_error* error);

/// By position in name order; DSCKPT_NOT_FOUND beyond the count.
int dsckpt_file_tensor(const dsckpt_file* file, uint32_t index, dsckpt_tensor_info* out,
                       dsckpt_error* error);
/// The same for an object.
int dsckpt_file_object(const dsckpt_file* file, uint32_t index, dsckpt_object_info* out,
                       dsckpt_error* error);
/// A second name of a tensor; `target` is the tensor's position.
int dsckpt_file_alias(const dsckpt_file* file, uint32_t index, dsckpt_text* name, uint32_t* target,
                      dsckpt_error* error);
/// By name; aliases are followed, the info then carries the tensor's own name.
int dsckpt_file_find_tensor(const dsckpt_file* file, const char* name, dsckpt_tensor_info* out,
                            dsckpt_error* error);
/// An object by its name.
int dsckpt_file_find_object(const dsckpt_file* file, const char* name, dsckpt_object_info* out,
                            dsckpt_error* error);

/// What the elements of a tensor are, in numbers; see dsckpt::TensorStatistics.
typedef struct dsckpt_tensor_statistics {
  size_t size;
  /// How many elements are NaN, an infinity, and 0 or -0.
  uint64_t nan, inf, zero;
  /// The least and the greatest of the finite elements; NaN when there is none.
  double min, max;
  /// The sum of the finite elements, and that of their squares.
  double sum, sum_squares;
} dsckpt_tensor_statistics;

/// By name; aliases are followed. DSCKPT_NOT_FOUND also when the file holds none of the tensor: it
/// was saved without, or the dtype is packed.
int dsckpt_file_tensor_statistics(const dsckpt_file* file, const char* name,
                                  dsckpt_tensor_statistics* out, dsckpt_error* error);

/// The elements in memory: of the mapped file itself where raw and mapped, else in memory of the
/// view's own (then checksums are checked). Valid until the view is destroyed, also after the file
/// is.
int dsckpt_file_view(const dsckpt_file* file, const char* name, dsckpt_view** out,
                     dsckpt_error* error);
/// The first element; valid until the view is destroyed.
const void* dsckpt_view_data(const dsckpt_view* view);
/// The size of the elements, in bytes.
uint64_t dsckpt_view_bytes(const dsckpt_view* view);
/// Gives the view back.
void dsckpt_view_destroy(dsckpt_view* view);

/// One tensor to load, and where to. Never grows.
typedef struct dsckpt_load_request {
  /// The name of a tensor or of an alias.
  const char* name;
  /// Where the first element goes.
  void* data;
  uint64_t bytes;          ///< Room at `data`; contiguous: exactly the tensor's raw bytes.
  const int64_t* strides;  ///< In elements; null: contiguous, row-major.
  size_t rank;             ///< Number of strides.
} dsckpt_load_request;

/// Many tensors into caller memory, in file order and in parallel, checksums checked. On failure
/// the destinations hold undefined bytes.
int dsckpt_file_load(const dsckpt_file* file, const dsckpt_load_request* requests, size_t count,
                     dsckpt_error* error);
/// The same into memory of a device, written after what `stream` holds now and before the call
/// returns. Strides must be null.
int dsckpt_file_load_device(const dsckpt_file* file, const dsckpt_load_request* requests,
                            size_t count, int device, void* stream, dsckpt_error* error);
/// One whole tensor; `bytes` is exactly its raw bytes.
int dsckpt_file_read(const dsckpt_file* file, const char* name, void* out, uint64_t bytes,
                     dsckpt_error* error);
/// The box [begin[i], end[i]) of a tensor, row-major; `bytes` is exactly its size.
int dsckpt_file_read_slice(const dsckpt_file* file, const char* name, const int64_t* begin,
                           const int64_t* end, size_t rank, void* out, uint64_t bytes,
                           dsckpt_error* error);
/// An object's raw bytes, checksums checked; `bytes` is exactly its raw_bytes.
int dsckpt_file_read_object(const dsckpt_file* file, const char* name, void* out, uint64_t bytes,
                            dsckpt_error* error);

/// Attributes: DSCKPT_NOT_FOUND when absent, DSCKPT_MISMATCH when of another kind.
int dsckpt_file_attribute_int(const dsckpt_file* file, const char* name, int64_t* out,
                              dsckpt_error* error);
/// The same for a floating-point number.
int dsckpt_file_attribute_double(const dsckpt_file* file, const char* name, double* out,
                                 dsckpt_error* error);
/// Writes NUL-terminated text. `*needed` (may be null) receives its bytes with the NUL, also when
/// `capacity` is too small, which is DSCKPT_INVALID_ARGUMENT.
int dsckpt_file_attribute_string(const dsckpt_file* file, const char* name, char* out,
                                 size_t capacity, size_t* needed, dsckpt_error* error);

/// How a state is restored; see dsckpt::RestoreOptions.
typedef struct dsckpt_restore_options {
  size_t size;
  int32_t partial;    ///< Nonzero: allow items that only one side has.
  int32_t no_verify;  ///< Nonzero: skip the checksums.
} dsckpt_restore_options;

/// Reads the state back in place. Nothing is written unless names, dtypes, shapes and sizes agree
/// (DSCKPT_MISMATCH names what does not).
int dsckpt_file_restore(const dsckpt_file* file, const dsckpt_state* state,
                        const dsckpt_restore_options* options, dsckpt_error* error);

// --- Checkpoints: files of many ranks as one (dsckpt/checkpoint.h) ------------------------------

/// How a checkpoint is opened; see dsckpt::CheckpointOptions.
typedef struct dsckpt_checkpoint_options {
  size_t size;
  int32_t no_map;   ///< As in dsckpt_open_options, for every shard.
  int32_t threads;  ///< Likewise.
  /// How long shards that a lagging file system does not show yet, or shows stale, are looked for:
  /// 0: 5 seconds; below 0: they are not.
  int64_t retry_ns;
  int32_t ignore_header;  ///< As in dsckpt_open_options, for every shard.
  int32_t reserved;       ///< Zero.
} dsckpt_checkpoint_options;

/// Opens a checkpoint directory, or one shard as a checkpoint of its own. Reads the manifest;
/// shards are opened when they are needed. DSCKPT_NOT_FOUND, DSCKPT_INCOMPLETE (a directory without
/// a manifest, or a shard is missing), DSCKPT_CORRUPT, DSCKPT_NOT_CHECKPOINT.
int dsckpt_checkpoint_open(const char* path, const dsckpt_checkpoint_options* options,
                           dsckpt_checkpoint** out, dsckpt_error* error);
/// Files that dsckpt_checkpoint_open_shard opened stay valid.
void dsckpt_checkpoint_destroy(dsckpt_checkpoint* checkpoint);

/// What a checkpoint says about itself.
typedef struct dsckpt_checkpoint_info {
  size_t size;
  dsckpt_text path;  ///< Valid until the checkpoint is destroyed.
  int64_t step;      ///< -1 where nothing says it.
  uint64_t serial;   ///< Position among the saves of its run directory, from 1; 0: not known.
  uint64_t parent;   ///< `serial` of the save that training went on from; 0: none, or not known.
  uint32_t ranks;    ///< That saved it.
  /// The number of files.
  uint32_t shard_count;
  uint32_t tensor_count;  ///< Logical tensors.
  int32_t has_manifest;   ///< 0 for a single shard.
  /// One digest of what all files hold, its halves; dsckpt::Checkpoint::ContentDigest says when two
  /// are equal. 0 without `has_content`.
  uint64_t content_low;
  uint64_t content_high;    ///< See `content_low`.
  int32_t has_content;      ///< 0 where a file has no digest of its content.
  uint32_t manifest_parts;  ///< Files beside the manifest that hold its pieces; 0: it does itself.
} dsckpt_checkpoint_info;

/// Fills the first `out->size` bytes of `out`.
int dsckpt_checkpoint_get_info(const dsckpt_checkpoint* checkpoint, dsckpt_checkpoint_info* out,
                               dsckpt_error* error);

/// One tensor of the job, whole. Its text and shape are valid until the checkpoint is destroyed.
typedef struct dsckpt_logical_tensor_info {
  size_t size;
  /// The name of the whole tensor.
  dsckpt_text name;
  /// Its `rank` dimensions.
  const int64_t* shape;
  /// The number of dimensions.
  size_t rank;
  /// The size of the whole tensor.
  uint64_t bytes;
  /// The element type. It may be a number that this library does not know.
  int32_t dtype;
  uint32_t ordinal;  ///< Position among the logical tensors, in name order.
  /// The number of pieces that the shards hold of it.
  uint32_t piece_count;
  uint32_t reserved;
} dsckpt_logical_tensor_info;

/// By position in name order; DSCKPT_NOT_FOUND beyond the count.
int dsckpt_checkpoint_tensor(const dsckpt_checkpoint* checkpoint, uint32_t index,
                             dsckpt_logical_tensor_info* out, dsckpt_error* error);
/// By name.
int dsckpt_checkpoint_find_tensor(const dsckpt_checkpoint* checkpoint, const char* name,
                                  dsckpt_logical_tensor_info* out, dsckpt_error* error);

/// What the elements of a tensor are, in numbers, by name. DSCKPT_NOT_FOUND also where no shard
/// that holds the tensor whole has them; see dsckpt::Checkpoint::Statistics.
int dsckpt_checkpoint_tensor_statistics(const dsckpt_checkpoint* checkpoint, const char* name,
                                        dsckpt_tensor_statistics* out, dsckpt_error* error);

/// The rank that saved a shard. DSCKPT_NOT_FOUND beyond the count of shards.
int dsckpt_checkpoint_shard_rank(const dsckpt_checkpoint* checkpoint, uint32_t shard,
                                 uint32_t* rank, dsckpt_error* error);
/// Opens a shard for its objects and attributes, and checks that it is the one that the manifest
/// means. The file is the caller's, to be destroyed. DSCKPT_INCOMPLETE, DSCKPT_MISMATCH.
int dsckpt_checkpoint_open_shard(const dsckpt_checkpoint* checkpoint, uint32_t shard,
                                 dsckpt_file** out, dsckpt_error* error);

/// A whole logical tensor, from whichever shards hold it; `bytes` is exactly its bytes. Checksums
/// are checked and copies of the same elements compared: DSCKPT_MISMATCH where they differ,
/// DSCKPT_INCOMPLETE where no shard holds some elements.
int dsckpt_checkpoint_read(const dsckpt_checkpoint* checkpoint, const char* name, void* out,
                           uint64_t bytes, dsckpt_error* error);
/// The box [begin[i], end[i]) of a logical tensor, row-major; `bytes` is exactly its size. Only the
/// shards and chunks that hold it are read.
int dsckpt_checkpoint_read_box(const dsckpt_checkpoint* checkpoint, const char* name,
                               const int64_t* begin, const int64_t* end, size_t rank, void* out,
                               uint64_t bytes, dsckpt_error* error);
/// Reads the state back in place as dsckpt_file_restore does: tensors that the state describes with
/// pieces get those parts of logical tensors, others the whole logical tensor of their name.
/// Objects and attributes come from the shards of `rank`, and from those of rank 0 where these lack
/// them; see dsckpt::Checkpoint::Restore for a rank that wrote none. Any number of ranks can read
/// what any other number wrote.
int dsckpt_checkpoint_restore(const dsckpt_checkpoint* checkpoint, const dsckpt_state* state,
                              uint32_t rank, const dsckpt_restore_options* options,
                              dsckpt_error* error);

/// Opens the directory of a training run: lists its checkpoints once, changes nothing.
/// DSCKPT_NOT_FOUND, DSCKPT_IO_ERROR.
int dsckpt_run_open(const char* path, dsckpt_run** out, dsckpt_error* error);
/// Checkpoints opened from it stay valid.
void dsckpt_run_destroy(dsckpt_run* run);
/// Complete checkpoints; 0 for a null handle.
size_t dsckpt_run_checkpoint_count(const dsckpt_run* run);

/// One complete checkpoint of a run.
typedef struct dsckpt_run_entry {
  size_t size;
  dsckpt_text name;         ///< Of the entry in the directory; valid until the run is destroyed.
  int64_t step;             ///< -1 where nothing says it.
  uint64_t bytes;           ///< Of all shards.
  uint64_t serial, parent;  ///< As in dsckpt_checkpoint_info.
  /// The number of its files.
  uint32_t shard_count;
  int32_t abandoned;  ///< Nonzero: training was set back and has left it behind.
} dsckpt_run_entry;

/// In the order in which they were saved; DSCKPT_NOT_FOUND beyond the count.
int dsckpt_run_checkpoint(const dsckpt_run* run, size_t index, dsckpt_run_entry* out,
                          dsckpt_error* error);
/// Opens the checkpoint that the file `latest` names, or else the one that was saved last.
/// DSCKPT_NOT_FOUND where there is none.
int dsckpt_run_open_latest(const dsckpt_run* run, const dsckpt_checkpoint_options* options,
                           dsckpt_checkpoint** out, dsckpt_error* error);
/// Opens the last save of that step; DSCKPT_NOT_FOUND where there is none.
int dsckpt_run_open_step(const dsckpt_run* run, int64_t step,
                         const dsckpt_checkpoint_options* options, dsckpt_checkpoint** out,
                         dsckpt_error* error);

// --- CheckpointWriter: a group of ranks saves one checkpoint (dsckpt/checkpoint_writer.h) --------

/// How the checkpoints of a group are saved; see dsckpt::CheckpointWriterOptions.
typedef struct dsckpt_checkpoint_writer_options {
  size_t size;
  /// Where the checkpoints of the run stand, one directory each. Made where missing; not null.
  const char* run_directory;
  /// Null: one rank alone. Otherwise a directory that all ranks see and that nothing but this group
  /// uses meanwhile: dsckpt::JoinSharedDirectory, which waits until all ranks have arrived.
  const char* shared_directory;
  /// Of this process, and of the group; used with `shared_directory`.
  int32_t rank, ranks;
  /// The same text on all ranks of one job and another for every other job, such as a job's id with
  /// its count of restarts. May be null.
  const char* job;
  /// For the arrival of all ranks, 0: 10 minutes; and from a save until the shards of all ranks are
  /// durable and the manifest stands, 0: 30 minutes.
  int64_t join_timeout_ns, timeout_ns;
  /// How many of the newest checkpoints stay; 0: all. Besides, steps that are multiples of
  /// `keep_every` stay where that is not 0.
  int32_t keep_last;
  int32_t reserved;
  /// See `keep_last`.
  int64_t keep_every;
  /// As dsckpt_engine_options.on_event, from engine and commit threads. May be null.
  void (*on_event)(void* user, int kind, const dsckpt_error* event);
  /// The first argument of `on_event`.
  void* user;
} dsckpt_checkpoint_writer_options;

/// Every rank creates one. Uses `engine`, which must outlive it. Rank 0 also repairs what a crash
/// left in the run directory. DSCKPT_TIMED_OUT, DSCKPT_FAILED_PRECONDITION, DSCKPT_INVALID_ARGUMENT
/// and errors of storage.
int dsckpt_checkpoint_writer_create(dsckpt_engine* engine,
                                    const dsckpt_checkpoint_writer_options* options,
                                    dsckpt_checkpoint_writer** out, dsckpt_error* error);
/// Waits until every accepted checkpoint is published or failed.
void dsckpt_checkpoint_writer_destroy(dsckpt_checkpoint_writer* writer);

/// How one checkpoint is saved.
typedef struct dsckpt_checkpoint_save_options {
  size_t size;
  const char* name;  ///< Of the checkpoint's directory; null: "step-" and the step, ten digits.
  int32_t replace;   ///< Nonzero: a complete checkpoint of this name gives way.
  int32_t reserved;
  int32_t statistics;  ///< As in dsckpt_save_options, for every shard.
  int32_t reserved_2;  ///< Zero.
  /// How this rank's file is written; null: by default. `statistics` here or there is enough.
  const dsckpt_save_options* file;
} dsckpt_checkpoint_save_options;

/// Saves this rank's part and returns as dsckpt_engine_save does; nothing waits for other ranks.
/// All ranks call it in the same order with the same step and name. `out` may be null; otherwise it
/// receives a handle to this checkpoint, to be destroyed at any time.
int dsckpt_checkpoint_writer_save(dsckpt_checkpoint_writer* writer, int64_t step,
                                  const dsckpt_state* state,
                                  const dsckpt_checkpoint_save_options* options,
                                  dsckpt_checkpoint_save** out, dsckpt_error* error);
/// Waits for all checkpoints accepted so far; returns, once, the first error that no handle has
/// shown.
int dsckpt_checkpoint_writer_wait_durable(dsckpt_checkpoint_writer* writer, dsckpt_error* error);

/// Gives the handle back. The checkpoint itself goes on.
void dsckpt_checkpoint_save_destroy(dsckpt_checkpoint_save* save);
/// Blocks until this rank's source memory has been read, or its save failed.
int dsckpt_checkpoint_save_wait_captured(const dsckpt_checkpoint_save* save, dsckpt_error* error);
/// Blocks until the checkpoint of all ranks is published, durable and what `latest` names, or it
/// failed: the same answer on every rank that is alive.
int dsckpt_checkpoint_save_wait_durable(const dsckpt_checkpoint_save* save, dsckpt_error* error);

// --- Verify (dsckpt/verify.h) ------------------------------------------------------------------

/// One thing wrong with a file; see dsckpt::Problem. The strings are valid during the call.
typedef struct dsckpt_problem {
  /// The name of an item, or of a region of the file.
  const char* item;
  /// What kind of problem it is.
  const char* kind;
  /// The byte offset of the chunk or field, from the start of the file.
  uint64_t offset;
  /// What should be there.
  const char* expected;
  /// What is there.
  const char* found;
} dsckpt_problem;

/// How a file is checked.
typedef struct dsckpt_verify_options {
  size_t size;
  int32_t decode;   ///< Nonzero: also decode encoded chunks and check their raw sums.
  int32_t threads;  ///< 0: one a core, at most 8.
  /// Called on the calling thread, once a problem, in file order.
  void (*on_problem)(void* user, const dsckpt_problem* problem);
  /// The first argument of `on_problem`.
  void* user;
} dsckpt_verify_options;

/// Reads every byte and checks it. 0: the file is whole. DSCKPT_CORRUPT: it is not, and the error
/// names the first problem. Other codes: it could not be checked.
int dsckpt_verify(const char* path, const dsckpt_verify_options* options, dsckpt_error* error);

/// How a checkpoint is checked; see dsckpt::VerifyCheckpointOptions.
typedef struct dsckpt_verify_checkpoint_options {
  size_t size;
  int32_t decode;   ///< As in dsckpt_verify_options.
  int32_t threads;  ///< Likewise.
  /// Called on the calling thread, once a problem. `path` is the file or directory concerned, valid
  /// during the call. Of what is wrong beyond the bytes of one file, such as a missing shard,
  /// `problem->kind` is the name of a code ("Incomplete"), `problem->found` is the message, and the
  /// other members are empty.
  void (*on_problem)(void* user, const char* path, const dsckpt_problem* problem);
  /// Called now and then from one thread at a time, with the file that is being read.
  void (*on_progress)(void* user, const char* path, uint64_t done_bytes, uint64_t total_bytes);
  /// Called on the calling thread before each file; nonzero ends the call (DSCKPT_CANCELLED).
  int (*cancelled)(void* user);
  /// The first argument of the callbacks.
  void* user;
} dsckpt_verify_checkpoint_options;

/// Reads every byte of the files of a checkpoint directory, a run directory, a model's directory or
/// index, or of one file, and checks that they belong together; see dsckpt::VerifyCheckpoint. 0:
/// all is good. DSCKPT_CORRUPT, DSCKPT_TRUNCATED, DSCKPT_TRAILING_BYTES, DSCKPT_INCOMPLETE or
/// DSCKPT_MISMATCH: it is not, and the error names the first problem. Other codes: nothing is known
/// to be bad, but something could not be checked.
int dsckpt_verify_checkpoint(const char* path, const dsckpt_verify_checkpoint_options* options,
                             dsckpt_error* error);

// --- Merge (dsckpt/merge.h) --------------------------------------------------------------------

/// How files are merged; see dsckpt::MergeOptions.
typedef struct dsckpt_merge_options {
  size_t size;
  int32_t container;  ///< DSCKPT_CONTAINER_*.
  /// Not 0: a directory of about so many files of equal size.
  uint32_t shards;
  /// Not 0: a directory of files that hold at most so many bytes of tensors each. Not with
  /// `shards`.
  uint64_t max_shard_bytes;
  /// Patterns over whole names (dsckpt::NameFilter): tensors that one of `filters` matches, or all
  /// where there are none, but none of `excludes`.
  const char* const* filters;
  /// The number of `filters`.
  size_t filter_count;
  /// See `filters`.
  const char* const* excludes;
  /// The number of `excludes`.
  size_t exclude_count;
  /// Names that begin with this text lose it. May be null.
  const char* strip_prefix;
  /// "s/RE/NEW/", one after the other (dsckpt::TensorSelection).
  const char* const* renames;
  /// The number of `renames`.
  size_t rename_count;
  /// Not 0: floating-point tensors are cast to DSCKPT_F16, DSCKPT_BF16, DSCKPT_F32 or DSCKPT_F64.
  int32_t dtype;
  /// Nonzero: the inputs' checksums are not checked. Else a shard whose hash this release does not
  /// know is DSCKPT_UNSUPPORTED.
  int32_t no_verify;
  int32_t strict;   ///< Nonzero: objects and attributes that safetensors lacks are an error.
  int32_t replace;  ///< Nonzero: an output that exists gives way.
  int32_t dry_run;  ///< Nonzero: plan and check, write nothing.
  int32_t reserved;
  /// Called now and then on the calling thread while tensors are written. May be null.
  void (*on_progress)(void* user, uint64_t done_bytes, uint64_t total_bytes);
  /// Called often on the calling thread; nonzero stops the merge (DSCKPT_CANCELLED). May be null.
  int (*cancelled)(void* user);
  /// The first argument of the callbacks.
  void* user;
  /// Nonzero: inputs are taken by their indexes although their JSON headers say something else, or
  /// are damaged; see dsckpt::MergeOptions.
  int32_t ignore_header;
  int32_t reserved_2;  ///< Zero.
} dsckpt_merge_options;

/// What was read and written; see dsckpt::MergeReport.
typedef struct dsckpt_merge_report {
  size_t size;
  uint64_t shards;                          ///< Input files.
  uint64_t pieces, piece_bytes;             ///< Parts of tensors in the inputs; copies count.
  uint64_t tensors, aliases, bytes, files;  ///< Of the output.
  uint64_t objects;                         ///< Of the output.
  uint64_t cast, became_infinite;           ///< Tensors, and elements of them.
  uint64_t rank_specific, rank_own;         ///< What is kept for each rank, below "ranks".
  /// What the output lacks, because safetensors cannot hold it or because names were chosen or
  /// changed.
  uint64_t dropped_objects, dropped_attributes, dropped_aliases;
  uint64_t conflicting_metadata, conflicting_attributes;  ///< Names in which inputs differ.
} dsckpt_merge_report;

/// Writes what the files of `inputs` hold together as one file, or as a directory of other files;
/// see dsckpt::Merge, also for what `inputs` may be. `report` may be null; otherwise its first
/// `size` bytes are filled on success. On failure nothing was written, except with
/// DSCKPT_DURABILITY_UNKNOWN.
int dsckpt_merge(const char* const* inputs, size_t input_count, const char* output,
                 const dsckpt_merge_options* options, dsckpt_merge_report* report,
                 dsckpt_error* error);

#pragma GCC visibility pop
#if defined(__cplusplus)
}  // extern "C"
#endif

#endif  // DSCKPT_C_H_

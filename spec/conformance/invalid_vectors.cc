#include <cstring>

#include "format/header/header.h"
#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

// Each entry breaks one rule of spec/format.md, "Validation rules"; its name begins with the
// rule's.

namespace dsckpt::conformance {
namespace {

using format::Footer;
using format::IndexColumns;
using format::NodeRecord;

constexpr StatusCode kCorrupt = StatusCode::kCorrupt;
constexpr StatusCode kUnsupported = StatusCode::kUnsupported;

// The vector "mixed": tensors m/c m/f4 m/t1 m/w m/z, alias m/t2, objects o/0 o/1. Ordinals:
constexpr uint32_t kC = 0, kF4 = 1, kT1 = 2, kW = 3, kZ = 4;

void Store(std::string& bytes, size_t at, uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::string Flipped(std::string bytes, size_t at) {
  bytes.at(at) = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

/// The first node of a kind. REQUIRES: there is one.
NodeRecord& NodeOf(format::TreeColumns& tree, NodeKind kind) {
  for (NodeRecord& node : tree.nodes) {
    if (node.kind == kind) return node;
  }
  return tree.nodes.at(tree.nodes.size());
}

// The default, 1, is not stored: the root table's vtable has 0 for the field. Points it at the
// highest byte of the table's way to its vtable, which is 0.
void SetHashId(Parts& parts) {
  std::string& index = parts.index;
  uint32_t root = 0;
  int32_t to_vtable = 0;
  std::memcpy(&root, index.data(), sizeof root);
  std::memcpy(&to_vtable, index.data() + root, sizeof to_vtable);
  const auto vtable = static_cast<size_t>(static_cast<int64_t>(root) - to_vtable);
  constexpr uint16_t kZeroByte = 3;
  std::memcpy(index.data() + vtable + 4, &kZeroByte, sizeof kZeroByte);
}

/// Collects the vectors; `mixed` is the valid file that they break.
class Collection {
 public:
  explicit Collection(const std::string& mixed, const Footer& footer)
      : mixed_(mixed), footer_(footer) {}

  void Add(std::string name, StatusCode code, std::string contains, std::string bytes) {
    vectors_.push_back({std::move(name), std::move(bytes), code, std::move(contains)});
  }
  void Columns(std::string name, std::string contains, const ColumnsChange& change) {
    Add(std::move(name), kCorrupt, std::move(contains), WithColumns(mixed_, change));
  }
  void FooterField(std::string name, StatusCode code, std::string contains,
                   const std::function<void(Footer&)>& change) {
    Add(std::move(name), code, std::move(contains), WithFooter(mixed_, change));
  }
  /// A file that opens, and that verification finds fault with.
  void Damage(std::string name, std::string item, std::string kind, std::string bytes) {
    vectors_.push_back(
        {std::move(name), std::move(bytes), StatusCode::kOk, "", std::move(item), std::move(kind)});
  }

  void AddAll() {
    Sizes();
    FooterRules();
    IndexRules();
    NameRules();
    ShapeRules();
    PayloadRules();
    TreeRules();
    TreeValueRules();
    VerifyRules();
  }
  std::vector<InvalidVector> Take() { return std::move(vectors_); }

 private:
  void Sizes();
  void FooterRules();
  void IndexRules();
  void NameRules();
  void ShapeRules();
  void PayloadRules();
  void TreeRules();
  void TreeValueRules();
  void VerifyRules();

  const std::string& mixed_;
  const Footer footer_;
  std::vector<InvalidVector> vectors_;
};

void Collection::Sizes() {
  const size_t size = mixed_.size();
  Add("f1-cut-1", StatusCode::kTruncated, "truncated", mixed_.substr(0, size - 1));
  Add("f1-cut-footer", StatusCode::kTruncated, "truncated", mixed_.substr(0, size - 128));
  Add("f1-cut-half", StatusCode::kTruncated, "truncated", mixed_.substr(0, size / 2));
  Add("f1-cut-in-header", StatusCode::kTruncated, "truncated", mixed_.substr(0, 100));
  Add("f1-appended-1", StatusCode::kTrailingBytes, "trailing", mixed_ + '\0');
  Add("f1-appended-page", StatusCode::kTrailingBytes, "trailing", mixed_ + std::string(4096, '\0'));
  Add("f1-magic-damaged", kCorrupt, "footer", Flipped(mixed_, size - 8));
  Add("f1-mark-damaged", kCorrupt, "header", Flipped(mixed_, 20));
  Add("f1-header-unwritten", StatusCode::kNotCheckpoint, "zeros",
      std::string(footer_.data_begin, '\0') + mixed_.substr(footer_.data_begin));
  Add("f1-header-unwritten-but-one", kCorrupt, "header",
      std::string(4095, '\0') + mixed_.substr(4095));
  Add("f1-empty", StatusCode::kNotCheckpoint, "empty", "");
  Add("f1-middle-cut-out", StatusCode::kTruncated, "truncated",
      mixed_.substr(0, footer_.data_begin) + mixed_.substr(footer_.data_begin + 64));
  Add("f1-middle-put-in", StatusCode::kTrailingBytes, "trailing",
      mixed_.substr(0, footer_.data_begin) + std::string(64, '\0') +
          mixed_.substr(footer_.data_begin));
}

void Collection::FooterRules() {
  Add("f2-footer-checksum", kCorrupt, "footer", Flipped(mixed_, mixed_.size() - 128));
  FooterField("f3-major-2", kUnsupported, "version 2.0", [](Footer& f) { f.version_major = 2; });
  FooterField("f4-must-understand-0", kUnsupported, "feature bit 0",
              [](Footer& f) { f.must_understand = 1; });
  FooterField("f4-must-understand-63", kUnsupported, "feature bit 63",
              [](Footer& f) { f.must_understand = uint64_t{1} << 63; });
  Add("f5-footer-length", kCorrupt, "length",
      WithFooterBytes(mixed_, [](std::string& footer) { footer[60] = 64; }));
  Add("f6-reserved", kCorrupt, "reserved",
      WithFooterBytes(mixed_, [](std::string& footer) { footer[111] = 1; }));
  Add("f7-header-length", kCorrupt, "header",
      WithHeader(mixed_, [](std::string& header) { Store(header, 0, header.size()); }));
  FooterField("f8-file-bytes-more", StatusCode::kTruncated, "truncated",
              [](Footer& f) { f.file_bytes += 1; });
  FooterField("f8-file-bytes-less", StatusCode::kTrailingBytes, "trailing",
              [](Footer& f) { f.file_bytes -= 1; });
  FooterField("f9-l-below-d", kCorrupt, "tail_begin", [](Footer& f) { f.tail_begin = 4095; });
  FooterField("f9-l-above-index", kCorrupt, "tail_begin",
              [](Footer& f) { f.tail_begin = f.index_offset + 1; });
  FooterField("f9-index-offset", kCorrupt, "index_offset", [](Footer& f) { f.index_offset += 8; });
  FooterField("f9-index-offset-huge", kCorrupt, "index_offset",
              [](Footer& f) { f.index_offset = ~uint64_t{63}; });
  FooterField("f9-index-bytes", kCorrupt, "index_bytes", [](Footer& f) { f.index_bytes += 8; });
  FooterField("f9-index-bytes-huge", kCorrupt, "index_bytes",
              [](Footer& f) { f.index_bytes = ~uint64_t{7}; });
  Add("f10-header-size", kCorrupt, "header",
      WithHeader(mixed_, [](std::string& header) { header[80] ^= 1; }));
}

void Collection::IndexRules() {
  Add("x1-index-checksum", kCorrupt, "index", Flipped(mixed_, footer_.index_offset + 100));
  Add("x2-identifier", kCorrupt, "FlatBuffer",
      WithParts(mixed_, [](Parts& parts) { parts.index.replace(4, 4, "NOPE"); }));
  Add("x2-root-offset", kCorrupt, "FlatBuffer",
      WithParts(mixed_, [](Parts& parts) { parts.index.replace(0, 4, "\xff\xff\xff\x7f"); }));
  Add("x2-no-index", kCorrupt, "FlatBuffer",
      WithParts(mixed_, [](Parts& parts) { parts.index.assign(8, '\0'); }));
  Add("x2-vector-length", kCorrupt, "FlatBuffer", WithParts(mixed_, LengthenVector));
  Add("x2-required-field", kCorrupt, "FlatBuffer", WithParts(mixed_, DropRequiredField));
  Add("x2-string-terminator", kCorrupt, "FlatBuffer", WithParts(mixed_, UnterminateString));
  Add("x2-unaligned-column", kCorrupt, "alignment", WithParts(mixed_, UnalignColumn));
  Add("x3-hash-id", kUnsupported, "hash id", WithParts(mixed_, SetHashId));
  Columns("x4-dtype-column", "tensors.dtype", [](IndexColumns& c) { c.tensor_dtype.pop_back(); });
  Columns("x4-offset-column", "tensors.offset",
          [](IndexColumns& c) { c.tensors.offset.push_back(0); });
  Columns("x4-encoding-column", "objects.encoding",
          [](IndexColumns& c) { c.objects.encoding.clear(); });
  Columns("x4-target-column", "aliases.target", [](IndexColumns& c) { c.alias_target.clear(); });
  Columns("x4-media-type-column", "objects.media_type",
          [](IndexColumns& c) { c.object_media_type.pop_back(); });
  Columns("x5-block-elements-0", "block_elements",
          [](IndexColumns& c) { c.dtypes[0].block_elements = 0; });
  Columns("x5-block-bytes-0", "block_bytes", [](IndexColumns& c) { c.dtypes[0].block_bytes = 0; });
  Columns("x5-other-bits", "dtype", [](IndexColumns& c) { c.dtypes[0].bits += 1; });
  Columns("x5-code-twice", "dtype", [](IndexColumns& c) { c.dtypes.push_back(c.dtypes[0]); });
  Columns("x6-dtype-position", "dtype", [](IndexColumns& c) { c.tensor_dtype[kW] = 200; });
  Columns("x6-media-type-position", "media_type",
          [](IndexColumns& c) { c.object_media_type[0] = 200; });
  Columns("x6-alias-target", "target", [](IndexColumns& c) { c.alias_target[0] = 5; });
}

void Collection::NameRules() {
  const auto rename = [](format::NameColumns& names, uint32_t i, std::string_view to) {
    format::NameColumns changed;
    for (uint32_t j = 0; j < names.size(); ++j) changed.Append(j == i ? to : names[j]);
    names = changed;
  };
  Columns("n1-end-beyond", "name", [](IndexColumns& c) { c.tensor_names.ends.back() += 1; });
  Columns("n1-end-short", "name", [](IndexColumns& c) { c.tensor_names.ends.back() -= 1; });
  Columns("n1-ends-descend", "name", [](IndexColumns& c) { c.tensor_names.ends[0] = 9; });
  Columns("n2-equal", "m/c", [&](IndexColumns& c) { rename(c.tensor_names, kF4, "m/c"); });
  Columns("n2-descending", "m/b", [&](IndexColumns& c) { rename(c.tensor_names, kF4, "m/b"); });
  Columns("n3-tensor-and-alias", "m/w", [&](IndexColumns& c) { rename(c.alias_names, 0, "m/w"); });
  Columns("n3-tensor-and-object", "m/z",
          [&](IndexColumns& c) { rename(c.object_names, 0, "m/z"); });
  Columns("n3-alias-and-object", "o/1", [&](IndexColumns& c) { rename(c.alias_names, 0, "o/1"); });
  Columns("n4-nul", "NUL",
          [&](IndexColumns& c) { rename(c.object_names, 1, std::string_view("o/1\0", 4)); });
  Columns("n4-utf8", "UTF-8", [&](IndexColumns& c) { rename(c.object_names, 1, "o/\xff"); });
  Columns("n4-overlong", "UTF-8",
          [&](IndexColumns& c) { rename(c.object_names, 1, "o/\xc1\x81"); });
  Columns("n4-surrogate", "UTF-8",
          [&](IndexColumns& c) { rename(c.object_names, 1, "o/\xed\xa0\x80"); });
  Columns("n4-reserved-metadata", "__metadata__",
          [&](IndexColumns& c) { rename(c.tensor_names, kC, "__metadata__"); });
  Columns("n4-reserved-dsckpt", "__dsckpt__",
          [&](IndexColumns& c) { rename(c.tensor_names, kC, "__dsckpt__"); });
}

void Collection::ShapeRules() {
  const auto reshape = [](IndexColumns& c, uint32_t tensor, const std::vector<int64_t>& shape) {
    const uint32_t begin = tensor == 0 ? 0 : c.dim_end[tensor - 1];
    const auto old = static_cast<uint32_t>(c.dim_end[tensor] - begin);
    c.dims.erase(c.dims.begin() + begin, c.dims.begin() + begin + old);
    c.dims.insert(c.dims.begin() + begin, shape.begin(), shape.end());
    for (uint32_t i = tensor; i < c.dim_end.size(); ++i) {
      c.dim_end[i] += static_cast<uint32_t>(shape.size()) - old;
    }
  };
  Columns("t1-dim-end-beyond", "dim_end", [](IndexColumns& c) { c.dim_end.back() += 1; });
  Columns("t1-dims-left-over", "dims", [](IndexColumns& c) { c.dims.push_back(1); });
  Columns("t1-dim-end-descends", "dim_end", [](IndexColumns& c) { c.dim_end[kT1] = 0; });
  Columns("t1-rank-65", "dim_end",
          [&](IndexColumns& c) { reshape(c, kW, std::vector<int64_t>(65, 1)); });
  Columns("t2-negative", "shape", [&](IndexColumns& c) { reshape(c, kW, {-2, -3}); });
  Columns("t2-product", "shape", [&](IndexColumns& c) { reshape(c, kW, {int64_t{1} << 62, 4}); });
  Columns("t2-product-with-zero", "shape", [&](IndexColumns& c) {
    reshape(c, kW, {int64_t{1} << 62, 4, 0});
  });
  Columns("t2-bytes-overflow", "m/w", [&](IndexColumns& c) {
    reshape(c, kW, {(int64_t{1} << 62) - 1, 2});
  });
  Columns("t2-odd-f4", "shape", [&](IndexColumns& c) { reshape(c, kF4, {3}); });
  Columns("t3-raw-bytes", "raw_bytes", [](IndexColumns& c) { c.tensors.raw_bytes[kW] -= 4; });
  Columns("t3-shape", "raw_bytes", [&](IndexColumns& c) { reshape(c, kW, {2, 4}); });
}

void Collection::PayloadRules() {
  Columns("p1-stored-bytes", "stored_bytes",
          [](IndexColumns& c) { c.tensors.stored_bytes[kW] -= 1; });
  Columns("p1-object-stored-bytes", "stored_bytes",
          [](IndexColumns& c) { c.objects.stored_bytes[0] += 1; });
  Columns("p2-overlap", "offset",
          [](IndexColumns& c) { c.tensors.offset[kT1] = c.tensors.offset[kW]; });
  Columns("p2-hole", "offset", [](IndexColumns& c) { c.tensors.offset[kF4] += 1; });
  Columns("p2-in-header", "offset", [](IndexColumns& c) { c.tensors.offset[kW] = 0; });
  Columns("p2-beyond-file", "offset",
          [](IndexColumns& c) { c.tensors.offset[kC] = uint64_t{1} << 62; });
  Columns("p2-log-unaligned", "offset", [](IndexColumns& c) { c.objects.offset[1] += 8; });
  Columns("p2-object-beyond", "",
          [](IndexColumns& c) { c.objects.raw_bytes[1] = c.objects.stored_bytes[1] = 4096; });
  FooterField("p2-l", kCorrupt, "tail_begin", [](Footer& f) { f.tail_begin -= 1; });
  Columns("p3-chunk-end", "chunk_end", [](IndexColumns& c) { c.tensors.chunk_end[0] = 2; });
  Columns("p3-sums-left-over", "chunk_sums", [](IndexColumns& c) { c.chunk_sums.push_back({}); });
  Columns("p3-sums-missing", "chunk", [](IndexColumns& c) { c.chunk_sums.pop_back(); });
  Columns("p4-stored-chunk-of-raw", "stored_chunk_end",
          [](IndexColumns& c) { c.tensors.stored_chunk_end[kW] += 1; });
  Columns("p4-stored-chunk-missing", "stored_chunk",
          [](IndexColumns& c) { c.stored_chunks.clear(); });
  Columns("p4-stored-chunks-left-over", "stored_chunks",
          [](IndexColumns& c) { c.stored_chunks.push_back({}); });
  Columns("p5-stored-0", "stored bytes",
          [](IndexColumns& c) { c.stored_chunks[0].stored_bytes = 0; });
  Columns("p5-stored-above-raw", "stored bytes",
          [](IndexColumns& c) { c.stored_chunks[0].stored_bytes = 1025; });
  Columns("p5-reserved", "reserved", [](IndexColumns& c) { c.stored_chunks[0].reserved = 1; });
  Columns("p5-sum", "stored_bytes", [](IndexColumns& c) { c.tensors.stored_bytes[kZ] += 1; });
}

void Collection::TreeRules() {
  const auto tree = [this](std::string name, std::string contains,
                           const std::function<void(format::TreeColumns&)>& change) {
    Columns(std::move(name), std::move(contains), [&](IndexColumns& c) { change(c.tree); });
  };
  using Tree = format::TreeColumns;
  tree("r1-root-leaf", "tree node 0", [](Tree& t) { t.nodes[0].kind = NodeKind::kNull; });
  tree("r1-root-key", "tree node 0", [](Tree& t) { t.nodes[0].key_kind = Key::Kind::kInt; });
  Columns("r1-attributes-list", "attributes",
          [](IndexColumns& c) { c.attributes.nodes[0].kind = NodeKind::kList; });
  Columns("r1-attributes-nested", "attributes", [](IndexColumns& c) {
    c.attributes.nodes[1].kind = NodeKind::kDict;
    c.attributes.nodes[1].payload = 0;
  });
  tree("r2-kind-14", "kind", [](Tree& t) { t.nodes.back().kind = NodeKind{14}; });
  tree("r2-key-kind-3", "key", [](Tree& t) { t.nodes.back().key_kind = Key::Kind{3}; });
  tree("r2-dict-without-key", "key", [](Tree& t) {
    t.nodes.back().key_kind = Key::Kind::kNone;
    t.nodes.back().key = 0;
  });
  tree("r2-list-with-key", "key",
       [](Tree& t) { NodeOf(t, NodeKind::kObject).key_kind = Key::Kind::kInt; });
  tree("r3-children-leaf", "children", [](Tree& t) { t.nodes.back().children = 1; });
  tree("r3-children-more", "children", [](Tree& t) { ++t.nodes[1].children; });
  tree("r3-root-children", "children", [](Tree& t) { --t.nodes[0].children; });
  tree("r3-payload-less", "tree node", [](Tree& t) { --t.nodes[1].payload; });
  tree("r3-payload-huge", "nodes below", [](Tree& t) { t.nodes[1].payload = 1u << 31; });
  tree("r3-root-short", "tree node 0", [](Tree& t) { --t.nodes[0].payload; });
  tree("r4-depth-1001", "depth", [](Tree& t) {
    const size_t deep = kMaxTreeDepth + 1;
    t.nodes.assign(deep, {});
    for (size_t i = 0; i < deep; ++i) {
      t.nodes[i].kind = NodeKind::kList;
      t.nodes[i].children = i + 1 < deep;
      t.nodes[i].payload = deep - 1 - i;
    }
  });
}

void Collection::TreeValueRules() {
  const auto node = [this](std::string name, std::string contains, NodeKind kind,
                           const std::function<void(NodeRecord&)>& change) {
    Columns(std::move(name), std::move(contains),
            [&](IndexColumns& c) { change(NodeOf(c.tree, kind)); });
  };
  const auto payload = [&](std::string name, std::string contains, NodeKind kind, uint64_t value) {
    node(std::move(name), std::move(contains), kind, [value](NodeRecord& n) { n.payload = value; });
  };
  payload("r5-string-range", "payload", NodeKind::kString, format::HeapRange(0xFFFFFFFF, 1));
  node("r5-key-range", "key", NodeKind::kString,
       [](NodeRecord& n) { n.key = format::HeapRange(0, 0xFFFFFFFF); });
  payload("r6-tensor", "ordinal", NodeKind::kTensor, 5);
  payload("r6-alias", "ordinal", NodeKind::kAlias, 1);
  payload("r6-object", "ordinal", NodeKind::kObject, 2);
  node("r6-tag", "tag", NodeKind::kString, [](NodeRecord& n) { n.tag = 2; });
  payload("r7-bool-2", "payload", NodeKind::kBool, 2);
  payload("r7-null-1", "payload", NodeKind::kNull, 1);
  payload("r7-complex-15", "length", NodeKind::kComplex, format::HeapRange(0, 15));
  payload("r7-bigint-empty", "big integer", NodeKind::kBigInt, format::HeapRange(0, 0));
  Columns("r7-bigint-sign-2", "big integer", [](IndexColumns& c) {
    c.tree.heap[NodeOf(c.tree, NodeKind::kBigInt).payload & 0xFFFFFFFF] = 2;
  });
  Columns("r7-bigint-leading-zero", "big integer", [](IndexColumns& c) {
    const uint64_t range = NodeOf(c.tree, NodeKind::kBigInt).payload;
    c.tree.heap[(range & 0xFFFFFFFF) + (range >> 32) - 1] = 0;
  });
  node("r7-bigint-in-int64", "big integer", NodeKind::kBigInt,
       [](NodeRecord& n) { n.payload = format::HeapRange(static_cast<uint32_t>(n.payload), 9); });
  // 40 strings that are one range of the heap.
  const auto shared = WithColumns(mixed_, [](IndexColumns& c) {
    const auto begin = static_cast<uint32_t>(c.tree.heap.size());
    c.tree.heap.append(4096, 'x');
    for (uint32_t i = 0; i < 40; ++i) {
      NodeRecord record{};
      record.kind = NodeKind::kString;
      record.key_kind = Key::Kind::kInt;
      record.key = 1000 + i;
      record.payload = format::HeapRange(begin, 4096);
      c.tree.nodes.push_back(record);
    }
    c.tree.nodes[0].children += 40;
    c.tree.nodes[0].payload += 40;
  });
  Add("r8-heap-ranges", StatusCode::kLimitExceeded, "heap ranges", shared);
  const auto long_integer = WithColumns(mixed_, [](IndexColumns& c) {
    const auto begin = static_cast<uint32_t>(c.tree.heap.size());
    const auto length = static_cast<uint32_t>(kMaxBigIntBytes) + 2;
    c.tree.heap.append(1, '\0').append(length - 1, '\1');
    NodeOf(c.tree, NodeKind::kBigInt).payload = format::HeapRange(begin, length);
  });
  Add("r8-big-integer", StatusCode::kLimitExceeded, "big integer", long_integer);
}

void Collection::VerifyRules() {
  const uint64_t data = footer_.data_begin;
  const uint64_t log = footer_.index_offset - 64;  // Somewhere in the last log item.
  Damage("v-payload", "m/t1", "checksum", Flipped(mixed_, data));
  Damage("v-padding-listed", "padding", "padding", Flipped(mixed_, footer_.tail_begin));
  Damage("v-padding-log", "padding", "padding", Flipped(mixed_, footer_.index_offset - 1));
  Damage("v-object", "o/1", "checksum", Flipped(mixed_, log));
  Damage("v-header-checksum", "header", "checksum", Flipped(mixed_, mixed_.find("\"pt\"") + 1));
  Damage("v-header-version", "header", "header-mismatch",
         WithHeader(mixed_, [](std::string& header) { header[37] = '7'; }));
  Damage("v-chunk-sum", "m/w", "checksum",
         WithColumns(mixed_, [](IndexColumns& c) { c.chunk_sums[kW].high ^= 1; }));
  Damage("v-stored-sum", "m/z", "checksum",
         WithColumns(mixed_, [](IndexColumns& c) { c.stored_chunks[0].xxh3_64 ^= 1; }));
  Damage("v-tree-path", "m/f4", "structure", WithColumns(mixed_, [](IndexColumns& c) {
           NodeOf(c.tree, NodeKind::kTensor).payload = kF4;
         }));
  Damage("v-tree-key-twice", "index", "structure", WithColumns(mixed_, [](IndexColumns& c) {
           NodeOf(c.tree, NodeKind::kBool).key = NodeOf(c.tree, NodeKind::kBigInt).key;
         }));
  Damage("v-decoded-sum", "m/z", "checksum",
         WithColumns(mixed_, [](IndexColumns& c) { c.chunk_sums[kZ].low ^= 1; }));
}

}  // namespace

Result<std::vector<InvalidVector>> InvalidVectors(const std::string& mixed) {
  DSCKPT_ASSIGN_OR_RETURN(const Parts parts, TakeApart(mixed));
  Collection collection(mixed, parts.footer);
  collection.AddAll();
  return collection.Take();
}

Result<std::vector<FutureVector>> FutureVectors(const std::string& mixed,
                                                const std::string& encoded) {
  DSCKPT_RETURN_IF_ERROR(TakeApart(mixed).status());
  DSCKPT_RETURN_IF_ERROR(TakeApart(encoded).status());
  std::vector<FutureVector> vectors;
  vectors.push_back({"future-minor", WithParts(mixed, [](Parts& parts) {
                       parts.footer.version_minor = 7;
                       parts.footer.compatible = 0x8000000000000003;
                       parts.body.replace(35, 8, "1.7     ");
                     })});
  // Unlisted tensors alone may change dtype and stay where they are.
  vectors.push_back({"future-dtype", WithColumns(mixed, [](IndexColumns& c) {
                       c.dtypes[c.tensor_dtype[kC]] = {0x8001, 96, 4, 48};
                       c.dims[0] = 4;
                     })});
  vectors.push_back({"future-encoding", WithColumns(mixed, [](IndexColumns& c) {
                       c.tensors.encoding[kZ] = 200;
                       c.media_types[0] = "application/x-of-the-future";
                       c.tree.tags[0] = "future.tag";
                     })});
  // A chunk as long as its raw bytes: whether it is those nobody knows.
  vectors.push_back({"future-encoding-equal", WithColumns(encoded, [](IndexColumns& c) {
                       for (uint32_t i = 0; i < c.tensor_names.size(); ++i) {
                         if (c.tensor_names[i] == "noise") c.tensors.encoding[i] = 200;
                       }
                     })});
  return vectors;
}

}  // namespace dsckpt::conformance

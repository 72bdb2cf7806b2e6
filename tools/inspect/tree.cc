// Inspect --tree.

#include <vector>

#include "tools/inspect/inspect.h"
#include "tools/inspect/name_tree.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

struct Glyphs {
  const char* branch;
  const char* last;
  const char* pass;
  const char* space;
};
constexpr Glyphs kBoxes = {"\u251c\u2500\u2500 ", "\u2514\u2500\u2500 ", "\u2502   ", "    "};
constexpr Glyphs kAscii = {"|-- ", "`-- ", "|   ", "    "};

std::string TensorText(const TensorInfo& info) {
  return Format("{} {}  {}", DTypeText(info.dtype), ShapeText(info.shape),
                HumanBytes(info.raw_bytes));
}

std::string ObjectText(const ObjectInfo& object) {
  return Format("{}  {}", TerminalName(object.media_type), HumanBytes(object.raw_bytes));
}

std::string AliasText(const File& file, const AliasInfo& alias) {
  return "= " + TerminalName(file.tensor(alias.target).name);
}

// A key as it would be written in code, so that "0" and 0 differ; plain text stays plain.
std::string KeyText(const Key& key, size_t position) {
  if (key.kind() == Key::Kind::kNone) return Format("[{}]", position);
  if (key.kind() == Key::Kind::kInt) return Format("{}", key.integer());
  const std::string_view text = key.text();
  const bool quote = text.empty() || text.find_first_of(" :\"'") != std::string_view::npos ||
                     text.find_first_not_of("-0123456789") == std::string_view::npos;
  return quote ? Format("\"{}\"", TerminalName(text)) : TerminalName(text);
}

std::string NodeText(const File& file, const Node& node) {
  switch (node.kind()) {
    case NodeKind::kDict:
      return Format("dict of {}", node.size());
    case NodeKind::kList:
      return Format("list of {}", node.size());
    case NodeKind::kTuple:
      return Format("tuple of {}", node.size());
    case NodeKind::kTensor:
      return TensorText(file.tensor(node.ordinal()));
    case NodeKind::kAlias:
      return AliasText(file, file.alias(node.ordinal()));
    case NodeKind::kObject:
      return ObjectText(file.object(node.ordinal()));
    default:
      return ValueText(node.value());
  }
}

NameTree NamesOf(const File& file) {
  NameTree names;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const TensorInfo info = file.tensor(i);
    names.Add(info.name, TensorText(info), info.raw_bytes);
  }
  for (uint32_t i = 0; i < file.alias_count(); ++i) {
    names.Add(file.alias(i).name, AliasText(file, file.alias(i)), 0);
  }
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    const ObjectInfo info = file.object(i);
    names.Add(info.name, ObjectText(info), info.raw_bytes);
  }
  return names;
}

class TreePrinter {
 public:
  TreePrinter(Console& console, uint64_t depth, uint64_t limit)
      : console_(console),
        depth_(depth),
        limit_(limit),
        glyphs_(console.utf8() ? kBoxes : kAscii) {}

  void Children(const File& file, const Node& parent, uint64_t level = 1) {
    const size_t prefix_bytes = prefix_.size();
    uint32_t position = 0;
    for (const Node& child : parent) {
      const bool last = position + 1 == parent.size();
      std::string text = KeyText(child.key(), position) + ": " + NodeText(file, child);
      if (!child.tag().empty()) text += Format(" ({})", TerminalName(child.tag()));
      if (!Line(text, last)) return;
      prefix_ += last ? glyphs_.space : glyphs_.pass;
      if (child.is_container() && level != depth_) Children(file, child, level + 1);
      prefix_.resize(prefix_bytes);
      ++position;
    }
  }

  void Children(const NameTree::Node& parent, uint64_t level = 1) {
    const size_t prefix_bytes = prefix_.size();
    for (const auto& child : parent.children) {
      const bool last = child == parent.children.back();
      const std::string key = child->key.empty() ? "\"\"" : TerminalName(child->key);
      if (!Line(key + ": " + NameTree::TextOf(*child), last)) return;
      prefix_ += last ? glyphs_.space : glyphs_.pass;
      if (level != depth_) Children(*child, level + 1);
      prefix_.resize(prefix_bytes);
    }
  }

  /// Says so where lines were left out.
  void Finish() const {
    if (!stopped_ || !console_.writable()) return;
    console_.Print("{}\n", console_.Styled(Style::kDim, "... (--limit 0 shows all)"));
  }

 private:
  // False when no more lines are wanted.
  bool Line(std::string_view text, bool last) {
    if (stopped_ || !console_.writable() || (limit_ != 0 && lines_ == limit_)) {
      stopped_ = true;
      return false;
    }
    ++lines_;
    const size_t width = console_.out_width();
    const std::string line = prefix_ + (last ? glyphs_.last : glyphs_.branch) + std::string(text);
    console_.Write(width == 0 ? line : FitWidth(line, width));
    console_.Write("\n");
    return true;
  }

  Console& console_;
  const uint64_t depth_;
  const uint64_t limit_;
  const Glyphs glyphs_;
  uint64_t lines_ = 0;
  bool stopped_ = false;
  std::string prefix_;
};

}  // namespace

void PrintNameTree(Console& console, NameTree& names, const InspectOptions& options,
                   uint64_t limit) {
  names.Order();
  if (options.collapses(console, names.Lines())) names.Collapse();
  names.Join();
  TreePrinter printer(console, options.depth.value_or(0), limit);
  printer.Children(names.root());
  printer.Finish();
}

void PrintTree(Console& console, const File& file, const InspectOptions& options, uint64_t limit) {
  const std::optional<Node> tree = file.tree();
  if (!tree) {
    console.Write("no state tree: names split at '.' and '/'\n");
    NameTree names = NamesOf(file);
    return PrintNameTree(console, names, options, limit);
  }
  console.Print("{}\n", NodeText(file, *tree));
  TreePrinter printer(console, options.depth.value_or(0), limit);
  printer.Children(file, *tree);
  printer.Finish();
}

}  // namespace dsckpt::tools

// Inspect --tree.

#include <vector>

#include "tools/inspect/inspect.h"
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

class TreePrinter {
 public:
  TreePrinter(Console& console, const File& file, uint64_t limit)
      : console_(console), file_(file), limit_(limit), glyphs_(console.utf8() ? kBoxes : kAscii) {}

  void Children(const Node& parent) {
    const size_t prefix_bytes = prefix_.size();
    uint32_t position = 0;
    for (const Node& child : parent) {
      const bool last = position + 1 == parent.size();
      std::string text = KeyText(child.key(), position) + ": " + NodeText(file_, child);
      if (!child.tag().empty()) text += Format(" ({})", TerminalName(child.tag()));
      if (!Line(text, last)) return;
      prefix_ += last ? glyphs_.space : glyphs_.pass;
      if (child.is_container()) Children(child);
      prefix_.resize(prefix_bytes);
      ++position;
    }
  }

  void Flat() {
    const uint64_t items =
        uint64_t{file_.tensor_count()} + file_.alias_count() + file_.object_count();
    uint64_t position = 0;
    const auto line = [&](std::string_view name, const std::string& text) {
      return Line(KeyText(Key(name), 0) + ": " + text, ++position == items);
    };
    for (uint32_t i = 0; i < file_.tensor_count(); ++i) {
      const TensorInfo info = file_.tensor(i);
      if (!line(info.name, TensorText(info))) return;
    }
    for (uint32_t i = 0; i < file_.alias_count(); ++i) {
      if (!line(file_.alias(i).name, AliasText(file_, file_.alias(i)))) return;
    }
    for (uint32_t i = 0; i < file_.object_count(); ++i) {
      if (!line(file_.object(i).name, ObjectText(file_.object(i)))) return;
    }
  }

  bool stopped() const { return stopped_; }

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
  const File& file_;
  const uint64_t limit_;
  const Glyphs glyphs_;
  uint64_t lines_ = 0;
  bool stopped_ = false;
  std::string prefix_;
};

}  // namespace

void PrintTree(Console& console, const File& file, uint64_t limit) {
  TreePrinter printer(console, file, limit);
  if (const std::optional<Node> tree = file.tree()) {
    console.Print("{}\n", NodeText(file, *tree));
    printer.Children(*tree);
  } else {
    console.Write("no state tree: a flat dict of its items\n");
    printer.Flat();
  }
  if (printer.stopped() && console.writable()) {
    console.Print("{}\n", console.Styled(Style::kDim, "... (--limit 0 shows all)"));
  }
}

}  // namespace dsckpt::tools

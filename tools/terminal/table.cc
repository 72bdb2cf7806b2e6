#include "tools/terminal/table.h"

#include <algorithm>
#include <string_view>

#include "tools/terminal/console.h"
#include "tools/terminal/short_names.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kGap = 2;
// Off a terminal a few very long names must not widen a million rows.
constexpr size_t kWidestPadding = 100;
constexpr size_t kNarrowest = 12;

/// The first that may be cut.
size_t NamesColumn(const std::vector<Column>& columns) {
  const auto first = std::find_if(columns.begin(), columns.end(),
                                  [](const Column& column) { return column.shrinks; });
  return first == columns.end() ? 0 : static_cast<size_t>(first - columns.begin());
}

// Widths by content; 0: the column is empty and left out.
std::vector<size_t> Measure(const std::vector<Column>& columns, size_t rows, const FillRow& fill) {
  std::vector<size_t> widths(columns.size(), 0);
  std::vector<std::string> cells(columns.size());
  for (size_t row = 0; row < rows; ++row) {
    fill(row, cells);
    for (size_t i = 0; i < columns.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(cells[i]));
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (widths[i] != 0)
      widths[i] = std::max(widths[i], std::string_view(columns[i].heading).size());
  }
  return widths;
}

// Takes columns from the widest shrinkable one until the line fits.
void Fit(const std::vector<Column>& columns, size_t limit, std::vector<size_t>& widths) {
  size_t total = 0;
  for (const size_t width : widths) total += width == 0 ? 0 : width + kGap;
  total -= std::min(total, kGap);
  while (total > limit) {
    size_t widest = columns.size();
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool candidate = columns[i].shrinks && widths[i] > kNarrowest;
      if (candidate && (widest == columns.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == columns.size()) return;
    --widths[widest];
    --total;
  }
}

class RowPrinter {
 public:
  RowPrinter(Console& console, const std::vector<Column>& columns, std::vector<size_t> widths,
             ShortNames names)
      : console_(console),
        columns_(columns),
        widths_(std::move(widths)),
        names_(std::move(names)) {}

  void Print(const std::vector<std::string>& cells, Style style) {
    line_.clear();
    size_t gap = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths_[i] == 0) continue;
      line_.append(gap, ' ');
      gap = kGap;
      AppendCell(cells[i], i);
    }
    line_.erase(line_.find_last_not_of(' ') + 1);
    // A terminal too narrow for the narrowest columns.
    if (console_.out_width() != 0) line_ = FitWidth(line_, console_.out_width());
    console_.Write(console_.Styled(style, line_));
    console_.Write("\n");
  }

 private:
  void AppendCell(const std::string& cell, size_t column) {
    const size_t width = widths_[column];
    const Column::Align align = columns_[column].align;
    const bool cut = console_.out_width() != 0;
    const size_t columns = DisplayWidth(cell);
    const size_t padding = columns < width ? width - columns : 0;
    if (align == Column::Align::kRight) line_.append(padding, ' ');
    line_ += !cut || columns <= width          ? cell
             : column == NamesColumn(columns_) ? names_.Fit(cell, width)
                                               : FitWidth(cell, width);
    if (align == Column::Align::kLeft) line_.append(padding, ' ');
  }

  Console& console_;
  const std::vector<Column>& columns_;
  std::vector<size_t> widths_;
  ShortNames names_;
  std::string line_;
};

}  // namespace

void PrintTable(Console& console, const std::vector<Column>& columns, size_t rows,
                const FillRow& fill) {
  std::vector<size_t> widths = Measure(columns, rows, fill);
  bool names_are_cut = false;
  if (console.out_width() != 0) {
    const size_t needed = widths[NamesColumn(columns)];
    Fit(columns, console.out_width(), widths);
    names_are_cut = widths[NamesColumn(columns)] < needed;
  } else {
    for (size_t& width : widths) width = std::min(width, kWidestPadding);
  }
  std::vector<std::string> cells(columns.size());
  ShortNames names;
  for (size_t row = 0; names_are_cut && row < rows; ++row) {
    fill(row, cells);
    names.Add(cells[NamesColumn(columns)]);
  }
  RowPrinter printer(console, columns, std::move(widths), std::move(names));
  for (size_t i = 0; i < columns.size(); ++i) cells[i] = columns[i].heading;
  printer.Print(cells, Style::kBold);
  for (size_t row = 0; row < rows && console.writable(); ++row) {
    fill(row, cells);
    printer.Print(cells, Style::kPlain);
  }
}

void PrintMore(Console& console, uint64_t more) {
  if (more == 0) return;
  console.Print("{}\n", console.Styled(Style::kDim,
                                       Format("... {} more (--limit 0 lists all)", Grouped(more))));
}

}  // namespace dsckpt::tools

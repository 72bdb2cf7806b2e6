#ifndef DSCKPT_TOOLS_REPORT_PAGE_TEXT_H_
#define DSCKPT_TOOLS_REPORT_PAGE_TEXT_H_

#include <span>
#include <string_view>

// The files of tools/report/page, which embed.cmake puts into the program.

namespace dsckpt::tools {

/// The page itself, with {{NAME}} where something belongs.
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
/// The parts of the one script, in order.
extern const std::span<const std::string_view> kPageScripts;
/// SHA-256 of the style and of the whole script, in hexadecimal digits.
extern const std::string_view kPageStyleHash, kPageScriptHash;

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_REPORT_PAGE_TEXT_H_

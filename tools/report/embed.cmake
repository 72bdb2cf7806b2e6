# Writes OUT, a C++ file that holds the files of the folder PAGE. Usage: cmake -DPAGE=... -DOUT=... -P embed.cmake
# SCRIPTS: their order is that in which the page runs them.

set(SCRIPTS data.js format.js colors.js state.js tables.js axis.js lines.js findings.js strip.js heatmap.js picked.js
            geometry.js digests.js sizes.js keys.js main.js)

# A file as a raw string, in pieces: compilers need not take long ones.
function(literal out file)
  file(READ ${PAGE}/${file} text)
  if(text MATCHES "\\)page\"")
    message(FATAL_ERROR "${file}: it has what ends a raw string")
  endif()
  string(LENGTH "${text}" length)
  if(length GREATER 60000)
    message(FATAL_ERROR "${file}: too long for one string")
  endif()
  set(${out} "R\"page(${text})page\"" PARENT_SCOPE)
endfunction()

set(script "")
set(literals "")
foreach(file IN LISTS SCRIPTS)
  file(READ ${PAGE}/${file} text)
  string(APPEND script "${text}")
  literal(part ${file})
  string(APPEND literals "    ${part},\n")
endforeach()
string(SHA256 script_hash "${script}")
file(READ ${PAGE}/page.css style)
string(SHA256 style_hash "${style}")
literal(html page.html)
literal(css page.css)
file(WRITE ${OUT} "#include \"tools/report/page_text.h\"

namespace dsckpt::tools {
namespace {
constexpr std::string_view kScripts[] = {
${literals}};
}  // namespace
const std::string_view kPageHtml = ${html};
const std::string_view kPageStyle = ${css};
const std::span<const std::string_view> kPageScripts = kScripts;
const std::string_view kPageStyleHash = \"${style_hash}\";
const std::string_view kPageScriptHash = \"${script_hash}\";
}  // namespace dsckpt::tools
")

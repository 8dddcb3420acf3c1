// A report as one HTML file that works without a network: style, scripts and data inside.
//
// The page's data is one JSON object (document.h). Its scripts set every text through the DOM's textContent, and what
// this file writes itself is escaped, so that no text of a record becomes markup. A content security policy in <meta>
// lets only the scripts and the style of this program run, by their SHA-256; nothing is loaded, nothing can be sent
// (but for `live` pages, which ask the server that they came from). The same data gives the same bytes. Thread-safe; no
// state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace isobit::report {

using Json = nlohmann::ordered_json;

struct PageOptions {
  bool live = false;  // isobit watch: the page may ask its own server
};

// How a page begins: `isobit report` replaces a file only if it begins so.
inline constexpr std::string_view kPageBeginning = "<!doctype html>\n<!-- isobit report -->\n";

[[nodiscard]] std::string page(const Json& document, const PageOptions& options = {});

// For text within an element or an attribute's quotes.
[[nodiscard]] std::string html_text(std::string_view text);

// For <script type="application/json">: ASCII, without <, > and &, so that no text in it can end the element.
[[nodiscard]] std::string json_for_script(const Json& value);

// "sha256-...": how a content security policy names a script or a style.
[[nodiscard]] std::string policy_digest(std::string_view text);

// What the page's policy says, as the header of `isobit watch` repeats it.
[[nodiscard]] std::string policy(const PageOptions& options);

}  // namespace isobit::report

#include "report/page.h"

#include <fmt/format.h>

#include <cstdint>

#include "archive/sha256.h"
#include "report/assets.h"
#include "report/page_section.h"

namespace isobit::report {
namespace {

// RFC 4648, section 4, of bytes given as hexadecimal digits.
std::string base64_of_hex(std::string_view hex) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto nibble = [&](std::size_t i) -> std::uint32_t {
    if (i >= hex.size()) return 0;
    return static_cast<std::uint32_t>(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
  };
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 6) {  // three bytes, four digits
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 6; ++k) bits = bits << 4 | nibble(i + k);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[bits >> shift & 63];
    if (i + 2 >= hex.size()) {
      text.replace(text.size() - 2, 2, "==");
    } else if (i + 4 >= hex.size()) {
      text.back() = '=';
    }
  }
  return text;
}

// What a reader sees whose browser runs no scripts.
std::string without_scripts(const Json& document) {
  std::string text = "<noscript>\n<p>This page draws its figures with scripts, which this browser does not run.</p>\n";
  for (const Json& run : document.at("runs")) {
    text += fmt::format("<p>{}: {}, weights {}</p>\n", html_text(run.at("id").get<std::string>()),
                        html_text(run.at("state").get<std::string>()), html_text(run.at("weights").get<std::string>()));
    if (text.size() > 50'000) break;
  }
  return text + "</noscript>\n";
}

// The page's own script with the sections of components in it: the same for the whole process.
const std::string& page_script() {
  static const std::string script =
      std::string(assets::kPageScript) + section_scripts() + std::string(assets::kPageScriptEnd);
  return script;
}

std::string licences() {
  return fmt::format(
      "<footer class=\"licences\">\n<details>\n<summary>Written by isobit {}; drawn with Observable Plot and "
      "D3</summary>\n"
      "<h2>Observable Plot</h2>\n<pre tabindex=\"0\">{}</pre>\n<h2>D3</h2>\n<pre "
      "tabindex=\"0\">{}</pre>\n</details>\n</footer>\n",
      ISOBIT_VERSION, html_text(assets::kPlotLicence), html_text(assets::kD3Licence));
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string json_for_script(const Json& value) {
  const std::string plain = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(plain.size() + plain.size() / 16);
  for (const char c : plain) {
    if (c == '<') {
      escaped += "\\u003c";
    } else if (c == '>') {
      escaped += "\\u003e";
    } else if (c == '&') {
      escaped += "\\u0026";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string policy_digest(std::string_view text) { return "sha256-" + base64_of_hex(archive::sha256(text)); }

std::string policy(const PageOptions& options) {
  static const std::string kScripts = fmt::format("'{}' '{}' '{}'", policy_digest(assets::kD3),
                                                  policy_digest(assets::kPlot), policy_digest(page_script()));
  return fmt::format(
      "default-src 'none'; script-src {}; style-src '{}'; img-src data:;{} base-uri 'none'; form-action 'none'",
      kScripts, policy_digest(assets::kStyle), options.live ? " connect-src 'self';" : "");
}

std::string page(const Json& document, const PageOptions& options) {
  const std::string title = html_text(document.at("title").get<std::string>());
  std::string text(kPageBeginning);
  text += fmt::format(
      "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<meta name=\"generator\" content=\"isobit {}\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n",
      policy(options), ISOBIT_VERSION, title);
  const auto element = [&](std::string_view begin, std::string_view content, std::string_view end) {
    text.append(begin).append(content).append(end);
  };
  element("<style>", assets::kStyle, "</style>\n</head>\n<body>\n");
  text += "<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<div id=\"page\">\n";
  text += without_scripts(document) + "</div>\n" + licences();
  element("<script type=\"application/json\" id=\"report\">", json_for_script(document), "</script>\n");
  element("<script>", assets::kD3, "</script>\n");
  element("<script>", assets::kPlot, "</script>\n");
  element("<script>", page_script(), "</script>\n");
  return text + "</body>\n</html>\n";
}

}  // namespace isobit::report

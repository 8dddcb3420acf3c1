// The texts that a page is made of: style, scripts and licences, as src/report/page and src/report/vendor hold them.
// CMake writes assets.cpp from these files and checks the vendored ones against vendor/SHA256SUMS. Constants.
#pragma once

#include <string_view>

namespace isobit::report::assets {

extern const std::string_view kStyle;  // page/page.css
// page/*.js in the order of their names, in one function: its beginning, and the last of them (90-main.js).
extern const std::string_view kPageScript, kPageScriptEnd;
extern const std::string_view kD3, kPlot;
extern const std::string_view kD3Licence, kPlotLicence;

}  // namespace isobit::report::assets

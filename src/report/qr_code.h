// A text as a QR code (ISO/IEC 18004), by libqrencode: the command and the digests of a report, for a page on paper.
// Error correction M (15 %). Thread-safe; no state.
#pragma once

#include <string>
#include <vector>

namespace isobit::report {

// Rows of '1' (dark) and '0', without the quiet zone of four modules that it needs around it. Empty where the text is
// too long for one code (about 2,300 bytes).
[[nodiscard]] std::vector<std::string> qr_code(const std::string& text);

}  // namespace isobit::report

#include "report/qr_code.h"

#include <qrencode.h>

#include <memory>

namespace isobit::report {

std::vector<std::string> qr_code(const std::string& text) {
  const std::unique_ptr<QRcode, decltype(&QRcode_free)> code(
      QRcode_encodeData(static_cast<int>(text.size()), reinterpret_cast<const unsigned char*>(text.data()), 0,
                        QR_ECLEVEL_M),
      &QRcode_free);
  std::vector<std::string> rows;
  if (code == nullptr) return rows;
  const auto width = static_cast<std::size_t>(code->width);
  for (std::size_t y = 0; y < width; ++y) {
    std::string row(width, '0');
    for (std::size_t x = 0; x < width; ++x) {
      if ((code->data[y * width + x] & 1) != 0) row[x] = '1';
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace isobit::report

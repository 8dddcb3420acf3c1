// A file's bytes in windows, each with the bytes one further on, as Samples.
#include <fmt/format.h>

#include <cstring>

#include "archive/user_error.h"
#include "samples/mapped_file.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

using archive::UserError;

class TextSamples : public Samples {
 public:
  TextSamples(const Source& source, const std::string& path)
      : name_(source.file), window_(source.window), file_(path, "restore the file, or set data.path and data.train") {
    if (window_ < 1) throw UserError("data.window", fmt::format("{} bytes", window_), "set it to 1 or more");
    const auto bytes = static_cast<std::int64_t>(file_.bytes().size());
    count_ = bytes == 0 ? 0 : (bytes - 1) / window_;
    if (count_ == 0) {
      throw UserError(path,
                      fmt::format("has {} bytes, too few for a window of {} and the byte behind it", bytes, window_),
                      "use a longer text, or lower data.window");
    }
    fields_ = {{"tokens", Element::int64, {window_}, Role::input}, {"next", Element::int64, {window_}, Role::target}};
  }

  std::int64_t count() const override { return count_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(std::int64_t id) const override { return fmt::format("{}, byte {}", name_, id * window_); }

  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    const std::int64_t shift = fields_.at(field).role == Role::target ? 1 : 0;
    check_ids(ids, count_);
    file_.check_unchanged();
    for (const std::int64_t id : ids) {
      const std::byte* const from = file_.bytes().data() + id * window_ + shift;
      for (std::int64_t i = 0; i < window_; ++i, out += sizeof(std::int64_t)) {
        const auto value = std::to_integer<std::int64_t>(from[i]);
        std::memcpy(out, &value, sizeof value);
      }
    }
  }

 private:
  std::string name_;
  std::int64_t window_, count_ = 0;
  MappedFile file_;
  std::vector<Field> fields_;
};

}  // namespace

std::shared_ptr<const Samples> open_text(const Source& source) {
  refuse_columns(source);
  refuse_fields(source);
  return std::make_shared<TextSamples>(source, path_of(source, source.file));
}

}  // namespace isobit::samples

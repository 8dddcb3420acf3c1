// Images with labels or masks in two IDX files, as Samples.
#include <fmt/format.h>

#include <cstring>

#include "archive/user_error.h"
#include "samples/idx_reader.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

using archive::UserError;

class IdxSamples : public Samples {
 public:
  IdxSamples(const Source& source, const std::string& images, const std::string& labels)
      : labels_name_(source.labels),
        images_(images, 3, "images"),
        labels_(labels, source.masks ? 3 : 1, source.masks ? "masks" : "labels") {
    const auto &size = images_.dims(), &theirs = labels_.dims();
    if (theirs[0] != size[0]) {
      throw UserError(labels, fmt::format("has {} labels for the {} images of {}", theirs[0], size[0], images),
                      "use files of the same dataset");
    }
    if (source.masks && (theirs[1] != size[1] || theirs[2] != size[2])) {
      throw UserError(
          labels, fmt::format("has masks of {}x{} pixels for images of {}x{}", theirs[1], theirs[2], size[1], size[2]),
          "use files of the same dataset");
    }
    fields_ = {{"images", Element::uint8, {1, size[1], size[2]}, Role::input},
               {"labels", Element::int64, {theirs.begin() + 1, theirs.end()}, Role::target}};
  }

  std::int64_t count() const override { return images_.dims()[0]; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(std::int64_t id) const override { return fmt::format("{}, sample {}", labels_name_, id); }

  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    const IdxFile& file = fields_.at(field).role == Role::input ? images_ : labels_;
    check_ids(ids, count());
    file.check_unchanged();
    const auto elements = static_cast<std::size_t>(fields_[field].elements());
    for (const std::int64_t id : ids) {
      const std::uint8_t* const from = file.elements() + static_cast<std::size_t>(id) * elements;
      if (fields_[field].element == Element::uint8) {
        std::memcpy(out, from, elements);
        out += elements;
        continue;
      }
      for (std::size_t i = 0; i < elements; ++i, out += sizeof(std::int64_t)) {
        const std::int64_t value = from[i];
        std::memcpy(out, &value, sizeof value);
      }
    }
  }

 private:
  std::string labels_name_;
  IdxFile images_, labels_;
  std::vector<Field> fields_;
};

}  // namespace

std::shared_ptr<const Samples> open_idx(const Source& source) {
  refuse_columns(source);
  refuse_fields(source);
  return std::make_shared<IdxSamples>(source, path_of(source, source.file), path_of(source, source.labels));
}

}  // namespace isobit::samples

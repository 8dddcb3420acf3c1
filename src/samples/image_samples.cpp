// PNG or JPEG files of one size as Samples.
#include <fmt/format.h>

#include <cstring>

#include "archive/files.h"
#include "archive/user_error.h"
#include "samples/image_file.h"
#include "samples/image_list.h"
#include "samples/mapped_file.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr const char* kImageRemedy = "restore the file, or leave it out";

const char* kind_text(ImageKind kind) {
  switch (kind) {
    case ImageKind::png: return "PNG";
    case ImageKind::jpeg: return "JPEG";
    case ImageKind::none: break;
  }
  return "neither PNG nor JPEG";
}

class ImageSamples : public Samples {
 public:
  explicit ImageSamples(const Source& source) : list_(source) {
    for (std::int64_t id = 0; id < count(); ++id) look_at(id);
    fields_.push_back({"images", Element::uint8, {size_.channels, size_.height, size_.width}, Role::input});
    fields_.push_back(list_.table() ? list_.table()->targets_field("labels")
                                    : Field{"labels", Element::int64, {}, Role::target});
  }

  std::int64_t count() const override { return list_.count(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(std::int64_t id) const override {
    check_ids(std::span(&id, 1), count());
    return list_.name(id);
  }
  const std::vector<std::string>& classes() const override { return list_.classes(); }
  float weight(std::int64_t id) const override { return list_.table() ? list_.table()->weight(id) : 1; }
  std::int64_t targets(std::int64_t id) const override {
    return list_.table() ? list_.table()->counted_targets(id) : -1;
  }
  std::string group(std::int64_t id) const override { return list_.table() ? list_.table()->group(id) : ""; }

  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    const Field& what = fields_.at(field);
    check_ids(ids, count());
    for (const std::int64_t id : ids) {
      if (what.role == Role::input) {
        read_image(id, reinterpret_cast<std::uint8_t*>(out));
      } else if (list_.table()) {
        std::memcpy(out, list_.table()->targets() + static_cast<std::size_t>(id) * what.bytes(), what.bytes());
      } else {
        const std::int64_t label = list_.class_of(id);
        std::memcpy(out, &label, sizeof label);
      }
      out += what.bytes();
    }
  }

 private:
  void read_image(std::int64_t id, std::uint8_t* out) const {
    const std::string path = list_.full_path(id), file = archive::read_file(path);
    decode(kind_, std::as_bytes(std::span(file)), path, size_, out);
  }

  // That it is of the kind and size of the first one; reads its header.
  void look_at(std::int64_t id) {
    const std::string path = list_.full_path(id);
    const MappedFile file(path, kImageRemedy);
    const ImageKind kind = kind_of(file.bytes());
    if (id > 0 && kind != kind_) {
      throw UserError(list_.folder(),
                      fmt::format("has files of two kinds: {} is {}, {} is {}", list_.path(0), kind_text(kind_),
                                  list_.path(id), kind_text(kind)),
                      "bring all images to one kind, and keep other files elsewhere");
    }
    const ImageSize size = size_of(kind, file.bytes(), path);
    if (id > 0 && size != size_) {
      throw UserError(path, fmt::format("has {}, {} has {}", size.text(), list_.path(0), size_.text()),
                      "bring all images to one size and number of channels");
    }
    kind_ = kind;
    size_ = size;
  }

  ImageList list_;
  ImageKind kind_ = ImageKind::none;
  ImageSize size_;
  std::vector<Field> fields_;
};

}  // namespace

std::shared_ptr<const Samples> open_images(const Source& source) {
  if (source.table.empty()) {
    refuse_columns(source);
    refuse_fields(source);
  }
  return std::make_shared<ImageSamples>(source);
}

}  // namespace isobit::samples

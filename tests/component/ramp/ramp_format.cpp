// data.format = "ramp": a file with three numbers, samples, width and classes; sample i has the inputs (i * width + j)
// / (samples * width), times "scale" of data.settings, and the class i modulo classes.
#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "archive/user_error.h"
#include "samples/data_format.h"

namespace isobit::samples {
namespace {

class Ramp final : public Samples {
 public:
  explicit Ramp(const Source& source) : path_(source.folder + "/" + source.file) {
    std::ifstream file(path_);
    if (!(file >> count_ >> width_ >> classes_) || count_ < 1 || width_ < 1 || classes_ < 1)
      throw archive::UserError(path_, "is no ramp", "write three numbers: samples, width and classes");
    for (const std::string& setting : source.settings) {
      if (setting.rfind("scale=", 0) != 0)
        throw archive::UserError("data.settings", fmt::format("a ramp has no '{}'", setting), "use scale=NUMBER");
      scale_ = std::stof(setting.substr(6));
    }
    fields_ = {{"inputs", Element::float32, {width_}, Role::input}, {"labels", Element::int64, {}, Role::target}};
  }
  [[nodiscard]] std::int64_t count() const override { return count_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string name(std::int64_t id) const override { return fmt::format("{}, sample {}", path_, id); }
  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    for (const std::int64_t id : ids) {
      if (field == 1) {
        const std::int64_t label = id % classes_;
        std::memcpy(out, &label, sizeof label);
        out += sizeof label;
        continue;
      }
      for (std::int64_t j = 0; j < width_; ++j, out += sizeof(float)) {
        const float x = scale_ * static_cast<float>(id * width_ + j) / static_cast<float>(count_ * width_);
        std::memcpy(out, &x, sizeof x);
      }
    }
  }

 private:
  std::string path_;
  std::int64_t count_ = 0, width_ = 0, classes_ = 0;
  float scale_ = 1;
  std::vector<Field> fields_;
};

const DataFormatRegistration ramp_format({.name = "ramp",
                                          .takes_names = false,
                                          .takes_settings = true,
                                          .open = [](const Source& source) -> std::shared_ptr<const Samples> {
                                            return std::make_shared<Ramp>(source);
                                          },
                                          .files = {},
                                          .decoder = {}});

}  // namespace
}  // namespace isobit::samples

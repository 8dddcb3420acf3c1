// Samples whose fields lie in memory, for tests, benchmarks and readers that decode everything at once. Immutable after
// filling; thread-safe.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "samples/samples.h"

namespace isobit::samples {

class MemorySamples final : public Samples {
 public:
  // values[i]: count * fields[i].bytes() bytes (std::invalid_argument). `name` stands before a sample's number.
  MemorySamples(std::vector<Field> fields, std::vector<std::vector<std::byte>> values, std::int64_t count,
                std::string name)
      : fields_(std::move(fields)), values_(std::move(values)), count_(count), name_(std::move(name)) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (values_.at(i).size() != static_cast<std::size_t>(count) * fields_[i].bytes())
        throw std::invalid_argument("values of " + fields_[i].name + " do not fit its shape");
    }
  }

  [[nodiscard]] std::int64_t count() const override { return count_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string name(std::int64_t id) const override { return name_ + ", sample " + std::to_string(id); }
  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    const std::size_t size = fields_[field].bytes();
    for (const std::int64_t id : ids) {
      std::memcpy(out, values_[field].data() + static_cast<std::size_t>(id) * size, size);
      out += size;
    }
  }

 private:
  std::vector<Field> fields_;
  std::vector<std::vector<std::byte>> values_;
  std::int64_t count_;
  std::string name_;
};

}  // namespace isobit::samples

// Where training data comes from: samples by number, made of named fields of one shape each. No torch.
//
// A source (source.h) opens files as Samples; a Subset (subset.h) is some of the samples of another. What a reader
// gives for a sample is a function of the files alone. Immutable after opening; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace isobit::samples {

enum class Element { uint8, int64, float32 };

[[nodiscard]] constexpr std::size_t bytes_of(Element element) {
  return element == Element::uint8 ? 1 : element == Element::int64 ? 8 : 4;
}

enum class Role { input, target };

// One value per sample, row-major. Images are [channels, height, width].
struct Field {
  std::string name;
  Element element = Element::float32;
  std::vector<std::int64_t> shape;  // of one sample; empty: a single value
  Role role = Role::input;

  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t side : shape) n *= side;
    return n;
  }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * bytes_of(element); }
  friend bool operator==(const Field&, const Field&) = default;
};

class Samples {
 public:
  virtual ~Samples() = default;

  [[nodiscard]] virtual std::int64_t count() const = 0;
  // Inputs first, then targets; each in the order in which they were asked for.
  [[nodiscard]] virtual const std::vector<Field>& fields() const = 0;

  // The field's values of these samples, one after another: out[ids.size() * bytes()]. Throws archive::UserError naming
  // the file and place where it cannot be read.
  virtual void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const = 0;

  // For messages: "train.csv, line 18", "train/cat/0001.png", "train-labels-idx1-ubyte, sample 17".
  [[nodiscard]] virtual std::string name(std::int64_t id) const = 0;

  // What the sample weighs in its step's loss, 0 or more; 1 where the source has no such column. Reads no field.
  [[nodiscard]] virtual float weight(std::int64_t) const { return 1; }
  // How many of the sample's targets count (tokens, boxes); -1: all of the field's. Reads no field.
  [[nodiscard]] virtual std::int64_t targets(std::int64_t) const { return -1; }
  // Samples of one group stay in one part of a split; empty where the source has no groups.
  [[nodiscard]] virtual std::string group(std::int64_t) const { return {}; }
  // By label, where the source names its classes (folders of images); else empty.
  [[nodiscard]] virtual const std::vector<std::string>& classes() const;
};

}  // namespace isobit::samples

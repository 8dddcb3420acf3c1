// Arrays of numpy, a field each, as Samples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "archive/files.h"
#include "archive/printable.h"
#include "archive/user_error.h"
#include "samples/npy_array.h"
#include "samples/reader.h"
#include "samples/zip_file.h"

namespace isobit::samples {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr const char* kNpySamplesRemedy = "restore the file, or set data.path and data.train";

// Arrays by name, opened when they are asked for.
class Arrays {
 public:
  virtual ~Arrays() = default;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] virtual std::shared_ptr<const NpyArray> open(const std::string& name) const = 0;
  // What it has, without reading its elements.
  [[nodiscard]] virtual NpyHeader header(const std::string& name) const = 0;

 protected:
  std::vector<std::string> names_;  // ascending
};

class FolderArrays : public Arrays {
 public:
  explicit FolderArrays(std::string folder) : folder_(std::move(folder)) {
    for (const std::string& file : archive::names_in(folder_)) {
      if (file.size() > 4 && file.ends_with(".npy")) names_.push_back(file.substr(0, file.size() - 4));
    }
    std::sort(names_.begin(), names_.end());
  }
  std::shared_ptr<const NpyArray> open(const std::string& name) const override {
    const auto file = std::make_shared<const MappedFile>(path(name), kNpySamplesRemedy);
    return std::make_shared<const NpyArray>(file, file->bytes(), std::vector<std::byte>(), file->path());
  }
  NpyHeader header(const std::string& name) const override {
    const MappedFile file(path(name), kNpySamplesRemedy);
    return parse_npy_header(file.bytes().first(std::min(file.bytes().size(), kMostNpyHeader)), file.path());
  }

 private:
  std::string path(const std::string& name) const { return (fs::path(folder_) / (name + ".npy")).string(); }
  std::string folder_;
};

class ZipArrays : public Arrays {
 public:
  explicit ZipArrays(const std::string& path) : file_(std::make_shared<const MappedFile>(path, kNpySamplesRemedy)) {
    for (ZipMember& member : zip_members(file_->bytes(), path)) {
      if (member.name.size() <= 4 || !member.name.ends_with(".npy")) continue;
      const std::string name = member.name.substr(0, member.name.size() - 4);
      names_.push_back(name);
      members_.emplace(name, std::move(member));
    }
    std::sort(names_.begin(), names_.end());
  }
  std::shared_ptr<const NpyArray> open(const std::string& name) const override {
    const ZipMember& member = members_.at(name);
    auto owned = member.deflated ? unpack(member, member.size, file_->path()) : std::vector<std::byte>();
    return std::make_shared<const NpyArray>(file_, member.deflated ? std::span<const std::byte>() : member.packed,
                                            std::move(owned), place(name));
  }
  NpyHeader header(const std::string& name) const override {
    return parse_npy_header(unpack(members_.at(name), kMostNpyHeader, file_->path()), place(name));
  }

 private:
  std::string place(const std::string& name) const { return file_->path() + ", array " + archive::printable(name); }
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, ZipMember> members_;
};

std::unique_ptr<Arrays> open_arrays(const std::string& path) {
  std::error_code none;
  if (fs::is_directory(path, none)) return std::make_unique<FolderArrays>(path);
  if (path.ends_with(".npy"))
    throw UserError(path, "a single array: inputs and targets are two",
                    "name the folder of .npy files, or save both with numpy.savez");
  return std::make_unique<ZipArrays>(path);
}

std::string shapes(const Arrays& arrays) {
  std::vector<std::string> texts;
  for (const std::string& name : arrays.names())
    texts.push_back(archive::printable(name) + " " + arrays.header(name).text());
  return texts.empty() ? "none" : listed(texts);
}

class NpySamples : public Samples {
 public:
  NpySamples(const Source& source, std::string path) : path_(std::move(path)), name_(source.file) {
    const auto arrays = open_arrays(path_);
    if (arrays->names().empty())
      throw UserError(path_, "has no arrays", "write a .npz file with numpy.savez, or .npy files into a folder");
    const auto chosen = [&](const std::vector<std::string>& asked, const char* usual, const char* key) {
      if (!asked.empty()) return asked;
      if (std::binary_search(arrays->names().begin(), arrays->names().end(), usual))
        return std::vector<std::string>{usual};
      throw UserError(path_, fmt::format("has no array '{}'; it has {}", usual, shapes(*arrays)),
                      fmt::format("name arrays in {}", key));
    };
    for (const std::string& name : chosen(source.inputs, "x", "data.inputs")) add(*arrays, name, Role::input);
    for (const std::string& name : chosen(source.targets, "y", "data.targets")) add(*arrays, name, Role::target);
    group_ = column(*arrays, source.group);
    if (group_ && group_->header().kind == 'f')
      throw UserError(group_->place(), "groups are texts or whole numbers", "save array.astype(str)");
    if (const auto array = column(*arrays, source.weight)) read_weights(*array);
    if (const auto array = column(*arrays, source.count)) read_counts(*array);
  }

  std::int64_t count() const override { return arrays_[0]->count(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(std::int64_t id) const override { return fmt::format("{}, sample {}", name_, id); }

  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    const Field& what = fields_.at(field);
    check_ids(ids, count());
    arrays_[field]->check_unchanged();
    const auto elements = static_cast<std::uint64_t>(what.elements());
    for (const std::int64_t id : ids) {
      arrays_[field]->read(static_cast<std::uint64_t>(id) * elements, elements, what.element, out);
      out += what.bytes();
    }
  }

  float weight(std::int64_t id) const override {
    return weights_.empty() ? 1 : weights_.at(static_cast<std::size_t>(id));
  }
  std::int64_t targets(std::int64_t id) const override {
    return counts_.empty() ? -1 : counts_.at(static_cast<std::size_t>(id));
  }
  std::string group(std::int64_t id) const override {
    if (!group_) return {};
    check_ids(std::span(&id, 1), count());
    if (id % 1024 == 0) group_->check_unchanged();  // groups are asked for one after the other
    return group_->text(id);
  }

 private:
  std::shared_ptr<const NpyArray> open(const Arrays& arrays, const std::string& name) const {
    if (!std::binary_search(arrays.names().begin(), arrays.names().end(), name))
      throw UserError(path_, fmt::format("has no array '{}'; it has {}", archive::printable(name), shapes(arrays)),
                      name_remedy(name, arrays.names(), "arrays"));
    auto array = arrays.open(name);
    if (!arrays_.empty() && array->count() != count()) {
      throw UserError(array->place(),
                      fmt::format("has {} samples, '{}' has {}", array->count(), fields_[0].name, count()),
                      "save arrays whose first dimension is the same");
    }
    return array;
  }

  void add(const Arrays& arrays, const std::string& name, Role role) {
    for (const Field& field : fields_) {
      if (field.name == name)
        throw UserError(path_, fmt::format("array '{}' is asked for twice", archive::printable(name)), "name it once");
    }
    auto array = open(arrays, name);
    if (array->is_text())
      throw UserError(array->place(), fmt::format("texts ({}) are no numbers", array->header().text()),
                      "number the classes from 0 on");
    const auto& shape = array->header().shape;
    fields_.push_back({name, array->element(role), {shape.begin() + 1, shape.end()}, role});
    arrays_.push_back(std::move(array));
  }

  // One value per sample; none where the name is empty.
  std::shared_ptr<const NpyArray> column(const Arrays& arrays, const std::string& name) const {
    if (name.empty()) return nullptr;
    auto array = open(arrays, name);
    if (array->header().shape.size() != 1)
      throw UserError(array->place(), fmt::format("has the shape {}, not one value per sample", array->header().text()),
                      "save an array of one dimension");
    return array;
  }

  void read_weights(const NpyArray& array) {
    if (array.is_text()) throw UserError(array.place(), "weights are numbers", "save array.astype(np.float32)");
    const auto n = static_cast<std::uint64_t>(count());
    weights_.resize(n);
    if (array.header().kind == 'f') {
      array.read(0, n, Element::float32, reinterpret_cast<std::byte*>(weights_.data()));
    } else {
      std::vector<std::int64_t> whole(n);
      array.read(0, n, Element::int64, reinterpret_cast<std::byte*>(whole.data()));
      std::transform(whole.begin(), whole.end(), weights_.begin(),
                     [](std::int64_t n) { return static_cast<float>(n); });
    }
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (std::isfinite(weights_[i]) && weights_[i] >= 0) continue;
      throw UserError(fmt::format("{}, sample {}", array.place(), i), fmt::format("its weight is {}", weights_[i]),
                      "weights are numbers of 0 or more");
    }
  }

  void read_counts(const NpyArray& array) {
    if (array.is_text() || array.header().kind == 'f')
      throw UserError(array.place(), "counts are whole numbers", "save array.astype(np.int64)");
    counts_.resize(static_cast<std::size_t>(count()));
    array.read(0, counts_.size(), Element::int64, reinterpret_cast<std::byte*>(counts_.data()));
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] >= 0) continue;
      throw UserError(fmt::format("{}, sample {}", array.place(), i), fmt::format("its count is {}", counts_[i]),
                      "counts are 0 or more");
    }
  }

  std::string path_, name_;
  std::vector<Field> fields_;
  std::vector<std::shared_ptr<const NpyArray>> arrays_;  // of the fields
  std::shared_ptr<const NpyArray> group_;
  std::vector<float> weights_;  // read whole: they are looked up sample by sample
  std::vector<std::int64_t> counts_;
};

}  // namespace

std::shared_ptr<const Samples> open_npy(const Source& source) {
  return std::make_shared<NpySamples>(source, path_of(source, source.file));
}

}  // namespace isobit::samples

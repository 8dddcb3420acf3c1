// Lines of a table as Samples.
#include <fmt/format.h>

#include <cstring>

#include "samples/reader.h"
#include "samples/table_columns.h"

namespace isobit::samples {
namespace {

class CsvSamples : public Samples {
 public:
  explicit CsvSamples(const Source& source) : name_(source.file) {
    CsvTable table(path_of(source, source.file));
    rows_ = TableRows(table, source, TableKind::samples);
    fields_.push_back({"inputs", Element::float32, {static_cast<std::int64_t>(rows_.inputs_width())}, Role::input});
    fields_.push_back(rows_.targets_field("targets"));
  }

  std::int64_t count() const override { return rows_.count(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(std::int64_t id) const override { return fmt::format("{}, line {}", name_, rows_.line(id)); }
  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    check_ids(ids, count());
    const std::size_t bytes = fields_.at(field).bytes();
    const std::byte* const from = fields_[field].role == Role::input ? rows_.inputs() : rows_.targets();
    for (const std::int64_t id : ids) {
      std::memcpy(out, from + static_cast<std::size_t>(id) * bytes, bytes);
      out += bytes;
    }
  }
  float weight(std::int64_t id) const override { return rows_.weight(id); }
  std::int64_t targets(std::int64_t id) const override { return rows_.counted_targets(id); }
  std::string group(std::int64_t id) const override { return rows_.group(id); }

 private:
  std::string name_;
  TableRows rows_;
  std::vector<Field> fields_;
};

}  // namespace

std::shared_ptr<const Samples> open_csv(const Source& source) { return std::make_shared<CsvSamples>(source); }

}  // namespace isobit::samples

#include "samples/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr const char* kNpyRemedy = "write the array with numpy.save";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;

[[noreturn]] void damaged(const std::string& place, const std::string& what) {
  throw UserError(place, "damaged: " + what, kNpyRemedy);
}

// The dictionary, as numpy writes it: no other Python is read.
class Dictionary {
 public:
  Dictionary(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  void parse() {
    expect('{');
    while (!at('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr_) {
        if (at('[')) refuse_structure();
        descr_ = string();
      } else if (key == "fortran_order" && !fortran_) {
        fortran_ = truth();
      } else if (key == "shape" && !shape_) {
        shape_ = tuple();
      } else {
        damaged(place_, fmt::format("its header has the key '{}'", archive::printable(key)));
      }
      if (!at('}')) expect(',');
    }
    expect('}');
    blanks();
    if (next_ + 1 != text_.size() || text_[next_] != '\n') damaged(place_, "its header does not end with a line end");
    if (!descr_ || !fortran_ || !shape_) damaged(place_, "its header lacks descr, fortran_order or shape");
  }

  const std::string& descr() const { return *descr_; }
  bool fortran() const { return *fortran_; }
  const std::vector<std::int64_t>& shape() const { return *shape_; }

 private:
  void blanks() {
    while (next_ < text_.size() && text_[next_] == ' ') ++next_;
  }
  bool at(char c) {
    blanks();
    return next_ < text_.size() && text_[next_] == c;
  }
  void expect(char c) {
    if (!at(c)) damaged(place_, fmt::format("its header has no '{}' at character {}", c, next_ + 1));
    ++next_;
  }
  std::string string() {
    const char quote = at('"') ? '"' : '\'';
    expect(quote);
    const auto end = text_.find(quote, next_);
    if (end == std::string_view::npos) damaged(place_, "a text in its header does not end");
    std::string value(text_.substr(next_, end - next_));
    next_ = end + 1;
    return value;
  }
  bool truth() {
    blanks();
    for (const auto& [word, value] : {std::pair{std::string_view("False"), false}, {std::string_view("True"), true}}) {
      if (text_.substr(next_).starts_with(word)) {
        next_ += word.size();
        return value;
      }
    }
    damaged(place_, "fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!at(')')) {
      std::int64_t value = 0;
      const auto [end, code] = std::from_chars(text_.data() + next_, text_.data() + text_.size(), value);
      if (code != std::errc() || value < 0) damaged(place_, "a size in its shape is no number");
      next_ = static_cast<std::size_t>(end - text_.data());
      values.push_back(value);
      if (values.size() > 32) damaged(place_, "more than 32 dimensions");
      if (!at(')')) expect(',');
    }
    expect(')');
    return values;
  }
  [[noreturn]] void refuse_structure() const {
    throw UserError(place_, "an array of records (a structured dtype)", "save each column as an array of its own");
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t next_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> shape_;
};

bool number_type(char kind, std::size_t width) {
  switch (kind) {
    case 'b': return width == 1;
    case 'i': return width == 1 || width == 2 || width == 4 || width == 8;
    case 'u': return width == 1 || width == 2 || width == 4;
    case 'f': return width == 4 || width == 8;
    default: return false;
  }
}

// Order, kind and width from "<f4".
void read_descr(NpyHeader& header, const std::string& place) {
  const std::string& descr = header.descr;
  const std::string shown = archive::printable(descr);
  if (descr.size() < 2) damaged(place, fmt::format("its dtype is '{}'", shown));
  if (descr[1] == 'O' || descr[0] == 'O')
    throw UserError(place, "an array of Python objects, which are pickled: that could run code",
                    "save numbers or texts: array.astype(np.float32), array.astype(str)");
  if (descr[0] == '>')
    throw UserError(place, fmt::format("its dtype '{}' is big-endian", shown),
                    fmt::format("save array.astype('<{}')", archive::printable(descr.substr(1))));
  std::size_t width = 0;
  const auto [end, code] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), width);
  const bool sound = (descr[0] == '<' || descr[0] == '|') && code == std::errc() && end == descr.data() + descr.size();
  header.kind = descr[1];
  const bool text = header.kind == 'U' || header.kind == 'S';
  if (sound && text && width >= 1 && width <= 65536) {
    header.width = header.kind == 'U' ? 4 * width : width;
    return;
  }
  if (!sound || !number_type(header.kind, width) || (width > 1 && descr[0] == '|')) {
    const char* remedy = header.kind == 'f' ? "save array.astype(np.float32)" : "save array.astype(np.int64)";
    throw UserError(place, fmt::format("its dtype '{}' is not read", shown), remedy);
  }
  header.width = width;
}

}  // namespace

std::uint64_t NpyHeader::elements() const {
  std::uint64_t n = 1;
  for (const std::int64_t side : shape) n *= static_cast<std::uint64_t>(side);
  return n;
}

std::string NpyHeader::text() const {
  return fmt::format("{} [{}]", archive::printable(descr), fmt::join(shape, ", "));
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& place) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("\x93NUMPY")) throw UserError(place, "no .npy array: it does not begin as one", kNpyRemedy);
  if (text.size() < 12) damaged(place, "truncated within its header");
  const auto byte = [&](std::size_t at) { return std::size_t{static_cast<unsigned char>(text[at])}; };
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0)
    throw UserError(place, fmt::format("version {}.{} of the format is not known", byte(6), byte(7)), kNpyRemedy);
  const std::size_t begin = byte(6) == 1 ? 10 : 12;
  const std::size_t length = byte(8) | byte(9) << 8 | (begin == 12 ? byte(10) << 16 | byte(11) << 24 : 0);
  if (begin + length > kMostNpyHeader) damaged(place, fmt::format("its header claims {} bytes", length));
  if (length > text.size() - begin) damaged(place, "truncated within its header");
  Dictionary dictionary(text.substr(begin, length), place);
  dictionary.parse();

  NpyHeader header;
  header.descr = dictionary.descr();
  header.shape = dictionary.shape();
  header.data_at = begin + length;
  read_descr(header, place);
  std::uint64_t total = header.width;
  for (const std::int64_t side : header.shape) {
    const auto n = static_cast<std::uint64_t>(side);
    if (n > 0 && total > kMostBytes / n) damaged(place, "its shape claims more than 2^50 bytes");
    total *= n;
    if (n == 0) total = 0;
  }
  if (dictionary.fortran() && header.shape.size() > 1)
    throw UserError(place, "its elements are in Fortran order", "save numpy.ascontiguousarray(array)");
  return header;
}

}  // namespace isobit::samples

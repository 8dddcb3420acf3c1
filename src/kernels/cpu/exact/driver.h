// An exact product over two sides, by an engine that multiplies packed panels of digits.
//
//   Engine::kRows, kColumns     of a tile: rows of the left side, rows of the right one (which are its columns)
//   Engine::kStep, kBlock       terms are padded with 0 to a multiple of kStep; at most kBlock go into one call, so
//   that
//                               no sum in int32 overflows
//   Engine::kParts, kWeights    int32 sums per output, and what each counts in T
//   Engine::kPacked             terms that are packed together, from integers that the first level of the cache holds;
//                               kBlock where a panel's bytes do not follow term by term
//   Engine::kResumes            whether multiply adds to parts that it is given, and calls back between steps: then all
//                               blocks of a tile are added up in int32 and rounded while the next tile is multiplied,
//                               by Engine::round_rows, where all terms are one chunk; Engine::complete_writes
//                               orders what it wrote past the caches
//   Engine::kPacksFloats        whether pack_*_floats take rows of floats as they lie, where their scales are plain
//   Engine::kPacksAlong         whether pack_right_along takes a right panel row by row, as pack_left's values lie
//   left_bytes(terms), right_bytes(terms), pack_left, pack_right, multiply: as MaddEngine says
//   (vector/exact_products.cpp)
//
// Chunks of both sides are packed, tiles of them multiplied and added to T, T rounded. Sums of integers: nothing here
// decides a bit. T is a binary64 below 2^53, else an int64.
#pragma once

#include "kernels/cpu/exact/sides.h"

namespace isobit::kernels::ISOBIT_ISA::exact {

// Where output (l, r) goes, and what is added to it: alpha * product [+ beta * addend][+ bias of the left row].
struct Output {
  float* c = nullptr;
  const std::int64_t* left_offset = nullptr;
  const std::int64_t* right_offset = nullptr;
  float alpha = 1.0f, beta = 1.0f;
  const float* addend = nullptr;
  std::int64_t addend_left_stride = 0, addend_right_stride = 0;
  const float* bias = nullptr;
  bool past = false;  // written past the caches: large, and not read soon
};

// Of a packed side, and of its rows, so that T stays small; and where there is no T.
inline constexpr std::int64_t kChunkBytes = 4 << 20, kStreamedLeftBytes = 64 << 20, kStreamedRightBytes = 16 << 20;
inline constexpr std::int64_t kChunkRows = 1024, kStreamedRows = 8192;
inline constexpr std::int64_t kChunkTerms = 4096;  // of both
inline constexpr std::int64_t kJobRows = 64, kJobColumns = 256;
inline constexpr std::int64_t kNearBytes = 1 << 20;  // of left panels that the second level of the cache keeps

inline std::int64_t up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Whether no T is needed: a tile's parts take all terms.
template <class Engine>
constexpr bool parts_suffice(std::int64_t terms) {
  return Engine::kResumes && terms > 0 && terms <= kChunkTerms;
}
// Whether a product finds the scales of its matrices as it packs them, which then come from memory once.
template <class Engine>
constexpr bool finds_scales(std::int64_t terms) {
  return Engine::kPacksFloats && parts_suffice<Engine>(terms);
}

template <class Engine, class Sum>
class Product {
 public:
  Product(const Side& left, const Side& right, std::int64_t terms, const Output& out)
      : left_(left), right_(right), terms_(terms), out_(out) {}

  void run() {
    const std::int64_t chunk_terms = std::min(up(std::max<std::int64_t>(terms_, 1), Engine::kBlock), kChunkTerms);
    blocks_ = chunk_terms / Engine::kBlock;
    left_slot_ = up(Engine::left_bytes(padded(std::min<std::int64_t>(Engine::kBlock, terms_))), 64);
    // Not a multiple of a page: panels are packed side by side.
    right_slot_ = up(Engine::right_bytes(padded(std::min<std::int64_t>(Engine::kBlock, terms_))), 64) + 64;
    const std::int64_t most_rows =
        chunk_rows(left_slot_ * blocks_, Engine::kRows, streams() ? kStreamedLeftBytes : kChunkBytes);
    const std::int64_t most_columns =
        chunk_rows(right_slot_ * blocks_, Engine::kColumns, streams() ? kStreamedRightBytes : kChunkBytes);
    for (std::int64_t l = 0; l < left_.rows; l += most_rows) {
      Workspace workspace;
      first_row_ = l, rows_ = std::min(most_rows, left_.rows - l);
      left_panels_ = up(rows_, Engine::kRows) / Engine::kRows;
      left_packed_ = panels(workspace, left_slot_ * left_panels_ * blocks_);
      for (std::int64_t r = 0; r < right_.rows; r += most_columns) {
        first_column_ = r, columns_ = std::min(most_columns, right_.rows - r);
        chunk(chunk_terms);
      }
    }
  }

 private:
  // T of a block of outputs.
  struct Sums {
    Sum* at;
    std::int64_t stride;

    [[nodiscard]] Sum* tile(std::int64_t p, std::int64_t q) const {
      return at + p * Engine::kRows * stride + q * Engine::kColumns;
    }
  };

  [[nodiscard]] bool streams() const { return std::is_same_v<Sum, double> && parts_suffice<Engine>(terms_); }
  [[nodiscard]] std::int64_t chunk_rows(std::int64_t bytes_of_panel, std::int64_t panel, std::int64_t bytes) const {
    const std::int64_t most = streams() ? kStreamedRows : kChunkRows;
    return std::clamp<std::int64_t>(bytes / std::max<std::int64_t>(bytes_of_panel, 1), 1, most / panel) * panel;
  }
  // Terms of a block as they are packed.
  static std::int64_t padded(std::int64_t terms) { return up(terms, Engine::kStep); }
  static std::uint8_t* panels(Workspace& workspace, std::int64_t bytes) {
    return static_cast<std::uint8_t*>(workspace.bytes(static_cast<std::size_t>(bytes)));
  }

  void chunk(std::int64_t chunk_terms) {
    Workspace workspace;
    right_panels_ = up(columns_, Engine::kColumns) / Engine::kColumns;
    stride_ = right_panels_ * Engine::kColumns;
    right_packed_ = panels(workspace, right_slot_ * right_panels_ * blocks_);
    if (terms_ > chunk_terms) {  // else each job has sums of its own
      sums_ = static_cast<Sum*>(
          workspace.bytes(static_cast<std::size_t>(left_panels_ * Engine::kRows * stride_) * sizeof(Sum)));
    }
    std::int64_t term = 0;
    do {
      const std::int64_t terms = std::min(chunk_terms, terms_ - term);
      const std::int64_t here = up(terms, Engine::kBlock) / Engine::kBlock;
      pack(term, terms, here);
      if (streams()) {
        left_powers_ = powers(workspace, left_, first_row_, rows_, left_panels_ * Engine::kRows);
        right_powers_ = powers(workspace, right_, first_column_, columns_, stride_);
      }
      multiply(term == 0, term + terms == terms_, terms, here);
      term += terms;
    } while (term < terms_);
  }

  // The scales' first factors of rows [row, row + rows), found first where they are not known, in `first`, where all
  // are rows of floats, finite, and take no second; else nullptr.
  const float* plain_scales(const Side& side, std::int64_t row, std::int64_t rows, float* first) const {
    if (side.found != nullptr)
      find_scales(side.floats, row, row + rows, side.row_stride, terms_, side.term_stride, side.found);
    if (!Engine::kPacksFloats || side.integers != nullptr || side.slab != nullptr) return nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      const Scale& scale = side.scales[row + r];
      if (!scale.finite() || scale.second != 1.0f) return nullptr;
      first[r] = scale.first;
    }
    return first;
  }

  // Scale::power of rows [row, row + rows), then 0 up to `padded` of them.
  static const double* powers(Workspace& workspace, const Side& side, std::int64_t row, std::int64_t rows,
                              std::int64_t padded) {
    auto* power = static_cast<double*>(workspace.bytes(static_cast<std::size_t>(padded) * sizeof(double)));
    for (std::int64_t r = 0; r < rows; ++r) power[r] = side.scale(row + r).power;
    std::fill(power + rows, power + padded, 0.0);
    return power;
  }

  // Right panels that one job packs, a few terms of each at a time: their rows lie side by side where terms lie far
  // apart.
  static constexpr std::int64_t kTogether = Engine::kPacksFloats ? 16 : 4;

  static constexpr std::int64_t kFactors = std::max<std::int64_t>(Engine::kRows, Engine::kColumns* kTogether);

  // Left panels that one job packs: many where rows lie side by side, whose scales are found a line of memory at a
  // time.
  [[nodiscard]] std::int64_t left_together() const {
    return left_.found != nullptr && left_.row_stride == 1 ? kFactors / Engine::kRows : 1;
  }

  void pack(std::int64_t term, std::int64_t terms, std::int64_t blocks) {
    const bool packed = streams() && first_column_ > 0;  // the left side, with the first columns
    const std::int64_t together = left_together(), left_groups = packed ? 0 : (left_panels_ + together - 1) / together;
    const std::int64_t right_groups = (right_panels_ + kTogether - 1) / kTogether;
    const std::int64_t smallest =
        std::max<std::int64_t>(1, 65536 / (Engine::kColumns * kTogether * std::max<std::int64_t>(terms, 1)));
    parallel_for(0, left_groups + right_groups, smallest, [&](std::int64_t begin, std::int64_t end) {
      Workspace workspace;
      std::int32_t* values = workspace.ints(std::max(Engine::kRows, Engine::kColumns) * padded(Engine::kPacked));
      for (std::int64_t i = begin; i < end; ++i) {
        if (i < left_groups)
          pack_left_panels(i * together, std::min(left_panels_, (i + 1) * together), term, terms, values);
        else
          pack_right_panels(i - left_groups, term, terms, blocks, values);
      }
    });
  }
  void pack_left_panels(std::int64_t panel, std::int64_t panel_end, std::int64_t term, std::int64_t terms,
                        std::int32_t* values) const {
    alignas(64) float factors[kFactors];
    const std::int64_t row = panel * Engine::kRows, rows = std::min(panel_end * Engine::kRows, rows_) - row;
    const float* plain = plain_scales(left_, first_row_ + row, rows, factors);
    for (std::int64_t p = panel; p < panel_end; ++p) {
      for (std::int64_t first = 0, block = 0; first < terms; first += Engine::kBlock, ++block)
        pack_left(p, term + first, std::min<std::int64_t>(Engine::kBlock, terms - first),
                  plain == nullptr ? nullptr : plain + (p - panel) * Engine::kRows, values,
                  left_packed_ + (block * left_panels_ + p) * left_slot_);
    }
  }
  void pack_right_panels(std::int64_t group, std::int64_t term, std::int64_t terms, std::int64_t blocks,
                         std::int32_t* values) const {
    alignas(64) float factors[kFactors];
    const std::int64_t panel = group * kTogether, panel_end = std::min(right_panels_, panel + kTogether);
    const std::int64_t column = panel * Engine::kColumns;
    const float* plain = plain_scales(right_, first_column_ + column,
                                      std::min(panel_end * Engine::kColumns, columns_) - column, factors);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = block * Engine::kBlock;
      pack_right(panel, panel_end, term + first, std::min<std::int64_t>(Engine::kBlock, terms - first), plain, values,
                 right_packed_ + block * right_panels_ * right_slot_);
    }
  }

  // plain: plain_scales of the panel's rows, or nullptr.
  void pack_left(std::int64_t panel, std::int64_t term, std::int64_t n, const float* plain, std::int32_t* values,
                 std::uint8_t* to) const {
    const std::int64_t row = panel * Engine::kRows, rows = std::min<std::int64_t>(Engine::kRows, rows_ - row);
    if constexpr (Engine::kPacksFloats) {
      if (plain != nullptr) {
        const std::int64_t at = first_row_ + row, step = row_step(left_, at, rows);
        const float* x = left_.floats + left_.row_offset[at] + left_.term_offset[term];
        if (step >= 0 && run_length(left_.term_offset + term, n) == n)
          return Engine::pack_left_floats(x, step, plain, rows, n, to);
        if (step == 1) return Engine::pack_left_floats_across(x, left_.term_offset + term, plain, rows, n, to);
      }
    }
    for (std::int64_t t = 0; t < n; t += Engine::kPacked) {
      const std::int64_t terms = std::min<std::int64_t>(Engine::kPacked, n - t), stride = padded(terms);
      clear_rest<Engine::kRows>(values, rows, terms, stride);
      fetch_rows<Engine::kRows>(left_, first_row_ + row, rows, term + t, terms, values, stride);
      Engine::pack_left(values, stride, to);
      to += Engine::left_bytes(stride);
    }
  }

  // Panels [panel, panel_end) of a block of terms that begins at `to`.
  void pack_right(std::int64_t panel, std::int64_t panel_end, std::int64_t term, std::int64_t n, const float* plain,
                  std::int32_t* values, std::uint8_t* to) const {
    if constexpr (Engine::kPacksFloats) {
      if (plain != nullptr && pack_right_floats(panel, panel_end, term, n, plain, to)) return;
    }
    for (std::int64_t t = 0; t < n; t += Engine::kPacked, to += Engine::right_bytes(Engine::kPacked))
      for (std::int64_t p = panel; p < panel_end; ++p)
        pack_right_terms(p, term + t, std::min<std::int64_t>(Engine::kPacked, n - t), values, to + p * right_slot_);
  }

  // Whether it could.
  bool pack_right_floats(std::int64_t panel, std::int64_t panel_end, std::int64_t term, std::int64_t n,
                         const float* first, std::uint8_t* to) const {
    const std::int64_t begin = panel * Engine::kColumns, at = first_column_ + begin;
    const std::int64_t columns = std::min(panel_end * Engine::kColumns, columns_) - begin;
    const float* x = right_.floats + right_.row_offset[at] + right_.term_offset[term];
    const std::int64_t step = row_step(right_, at, columns);
    if (step < 0) return false;
    if (run_length(right_.term_offset + term, n) == n && (n > 1 || step != 1)) {
      for (std::int64_t c = 0, p = panel; p < panel_end; ++p, c += Engine::kColumns)
        Engine::pack_right_floats_along(x + c * step, step, first + c,
                                        std::min<std::int64_t>(Engine::kColumns, columns - c), n, to + p * right_slot_);
      return true;
    }
    if (step != 1) return false;
    Engine::pack_right_floats_across(x, right_.term_offset + term, first, columns, n, right_slot_,
                                     to + panel * right_slot_);
    return true;
  }
  // How far rows [row, row + rows) lie from each other; -1 where not all as far.
  static std::int64_t row_step(const Side& side, std::int64_t row, std::int64_t rows) {
    const std::int64_t* at = side.row_offset + row;
    const std::int64_t step = rows > 1 ? at[1] - at[0] : 1;
    for (std::int64_t r = 2; r < rows; ++r)
      if (at[r] - at[r - 1] != step) return -1;
    return step;
  }

  void pack_right_terms(std::int64_t panel, std::int64_t term, std::int64_t n, std::int32_t* values,
                        std::uint8_t* to) const {
    const std::int64_t column = panel * Engine::kColumns, first = first_column_ + column, all = padded(n);
    const std::int64_t columns = std::min<std::int64_t>(Engine::kColumns, columns_ - column);
    if constexpr (Engine::kPacksAlong) {
      if (terms_follow(first, columns, term, n)) {
        clear_rest<Engine::kColumns>(values, columns, n, all);
        fetch_rows<Engine::kColumns>(right_, first, columns, term, n, values, all);
        return Engine::pack_right_along(values, all, to);
      }
    }
    if (columns < Engine::kColumns || all > n) std::fill(values, values + Engine::kColumns * all, 0);
    fetch_columns<Engine::kColumns>(right_, first, columns, term, n, values, Engine::kColumns);
    Engine::pack_right(values, all, to);
  }
  // What fetch_rows leaves out of kRows rows of `stride`.
  template <int kRows>
  static void clear_rest(std::int32_t* values, std::int64_t rows, std::int64_t terms, std::int64_t stride) {
    for (std::int64_t r = 0; r < rows && terms < stride; ++r)
      std::fill(values + r * stride + terms, values + (r + 1) * stride, 0);
    std::fill(values + rows * stride, values + kRows * stride, 0);
  }
  // Whether a right panel lies row by row: its terms follow each other, its rows do not.
  [[nodiscard]] bool terms_follow(std::int64_t row, std::int64_t rows, std::int64_t term, std::int64_t terms) const {
    return rows > 1 && terms > 1 && run_length(right_.row_offset + row, rows) == 1 &&
           run_length(right_.term_offset + term, terms) == terms;
  }

  void multiply(bool first, bool last, std::int64_t terms, std::int64_t blocks) {
    if constexpr (Engine::kResumes && std::is_same_v<Sum, double>) {
      if (streams()) return stream(terms, blocks);
    }
    const std::int64_t high = std::max<std::int64_t>(1, kJobRows / Engine::kRows);
    const std::int64_t wide = std::max<std::int64_t>(1, kJobColumns / Engine::kColumns);
    const std::int64_t down = (left_panels_ + high - 1) / high, across = (right_panels_ + wide - 1) / wide;
    parallel_for(0, down * across, 1, [&](std::int64_t begin, std::int64_t end) {
      const typename Engine::Session session;
      Workspace workspace;
      Sum* own =
          static_cast<Sum*>(workspace.bytes(sums_ == nullptr ? sizeof(Sum) * high * Engine::kRows * kJobColumns : 0));
      for (std::int64_t job = begin; job < end; ++job) {
        const std::int64_t i = job / across * high, j = job % across * wide;
        const std::int64_t i_end = std::min(left_panels_, i + high), j_end = std::min(right_panels_, j + wide);
        const Sums sums = sums_ == nullptr ? Sums{own, kJobColumns}
                                           : Sums{sums_ + i * Engine::kRows * stride_ + j * Engine::kColumns, stride_};
        for (std::int64_t row = 0; first && row < (i_end - i) * Engine::kRows; ++row)
          std::fill_n(sums.at + row * sums.stride, (j_end - j) * Engine::kColumns, Sum(0));
        for (std::int64_t block = 0; block < blocks; ++block) {
          const std::int64_t n = std::min<std::int64_t>(Engine::kBlock, terms - block * Engine::kBlock);
          for (std::int64_t q = j; q < j_end && n > 0; ++q)
            for (std::int64_t p = i; p < i_end; ++p) tile(block, p, q, padded(n), sums.tile(p - i, q - j), sums.stride);
        }
        if (last)
          finish(sums, i * Engine::kRows, i_end * Engine::kRows, j * Engine::kColumns, j_end * Engine::kColumns);
      }
    });
  }

  void tile(std::int64_t block, std::int64_t p, std::int64_t q, std::int64_t terms, Sum* sums,
            std::int64_t stride) const {
    alignas(64) std::int32_t parts[Engine::kParts][Engine::kRows * Engine::kColumns];
    Engine::multiply(terms, left_packed_ + (block * left_panels_ + p) * left_slot_,
                     right_packed_ + (block * right_panels_ + q) * right_slot_, parts[0]);
    for (int row = 0; row < Engine::kRows; ++row) {
      for (int column = 0; column < Engine::kColumns; ++column) {
        Sum sum = sums[row * stride + column];
        for (int part = 0; part < Engine::kParts; ++part)
          sum +=
              static_cast<Sum>(parts[part][row * Engine::kColumns + column]) * static_cast<Sum>(Engine::kWeights[part]);
        sums[row * stride + column] = sum;
      }
    }
  }

  static float rounded(double sum, double left, double right) { return static_cast<float>(sum * left * right) + 0.0f; }
  static float rounded(double sum, const Scale& left, const Scale& right) {
    return rounded(sum, left.power, right.power);
  }
  static float rounded(std::int64_t sum, const Scale& left, const Scale& right) {
    if (!left.finite() || !right.finite()) return std::numeric_limits<float>::quiet_NaN();
    return contract::exact_rounded(sum, left.exponent + right.exponent - 32);
  }

  // A tile whose parts are complete and not yet rounded.
  struct Pending {
    const std::int32_t* parts = nullptr;
    std::int64_t row = 0, rows = 0, column = 0, columns = 0;
    bool direct = false, adjacent = false;  // outputs: whole rows of a tile, at most with an addend; side by side
    const double *left_powers = nullptr, *right_powers = nullptr;
  };
  void begin_columns(Pending& tile, std::int64_t panel) const {
    tile.column = first_column_ + panel * Engine::kColumns;
    tile.columns = std::min<std::int64_t>(Engine::kColumns, first_column_ + columns_ - tile.column);
    tile.right_powers = right_powers_ + panel * Engine::kColumns;
    tile.adjacent = run_length(out_.right_offset + tile.column, tile.columns) == tile.columns;
    tile.direct = tile.adjacent && tile.columns == Engine::kColumns && out_.alpha == 1.0f && out_.bias == nullptr &&
                  (out_.addend == nullptr || (out_.addend_right_stride == 1 && out_.beta == 1.0f));
  }
  void begin_rows(Pending& tile, std::int64_t panel, const std::int32_t* parts) const {
    tile.parts = parts, tile.row = first_row_ + panel * Engine::kRows;
    tile.rows = std::min<std::int64_t>(Engine::kRows, rows_ - panel * Engine::kRows);
    tile.left_powers = left_powers_ + panel * Engine::kRows;
  }
  void round_rows(const Pending& tile, std::int64_t begin, std::int64_t end) const {
    end = std::min(end, tile.rows);
    const std::int64_t* to = out_.right_offset + tile.column;
    const std::int64_t* offset = out_.left_offset + tile.row;
    const std::int64_t addend_stride = out_.addend_left_stride;
    if (tile.direct) {
      const float* addend = out_.addend == nullptr ? nullptr : out_.addend + tile.row * addend_stride + tile.column;
      return Engine::round_rows(tile.parts, tile.left_powers, tile.right_powers, begin, end, out_.c + to[0], offset,
                                addend, addend_stride, out_.past);
    }
    for (std::int64_t r = begin; r < end; ++r) {
      alignas(64) float values[Engine::kColumns];
      static constexpr std::int64_t kHere = 0;
      Engine::round_rows(tile.parts + r * Engine::kColumns, tile.left_powers + r, tile.right_powers, 0, 1, values,
                         &kHere, nullptr, 0, false);
      put(tile.row + r, tile.column, tile.columns, values, to, tile.adjacent);
    }
  }

  // The lines of outputs that these rows of a tile will be rounded to.
  void fetch_outputs(const Pending& columns, std::int64_t panel, std::int64_t begin, std::int64_t end) const {
    if (out_.past) return;
    const std::int64_t row = panel * Engine::kRows;
    const float* c = out_.c + out_.right_offset[columns.column];
    for (std::int64_t r = row + begin; columns.adjacent && r < std::min(row + end, rows_); ++r)
      __builtin_prefetch(c + out_.left_offset[first_row_ + r], 1);
  }

  // All tiles of `blocks` blocks. A job's left panels of one block stay in the second level of the cache while right
  // ones pass; a part of the right panel after this one is fetched with each tile. Of several blocks the parts of
  // kResumed right panels wait for the next. An int32 takes a chunk's terms: at most three products of 2^14 each.
  static constexpr std::int64_t kResumed = 32;
  void stream(std::int64_t terms, std::int64_t blocks) const {
    static_assert(kChunkTerms * 3 * (1 << 14) < std::int64_t{1} << 31);
    const std::int64_t high = std::clamp<std::int64_t>(kNearBytes / left_slot_, 2, 16);
    const std::int64_t down = (left_panels_ + high - 1) / high;
    const std::int64_t pieces = thread_count() > 1 ? 4 * thread_count() : 1;
    const std::int64_t across = std::clamp<std::int64_t>((pieces + down - 1) / down, 1, right_panels_);
    parallel_for(0, down * across, 1, [&](std::int64_t begin, std::int64_t end) {
      const typename Engine::Session session;
      Workspace workspace;
      // One more than are multiplied: the pending tile's.
      std::int32_t* parts = workspace.ints((blocks > 1 ? high * kResumed + 1 : high + 1) * kTileParts);
      for (std::int64_t job = begin; job < end; ++job) {
        const std::int64_t i = job / across * high, at = job % across;
        stream_job(terms, blocks, i, std::min(left_panels_, i + high), right_panels_ * at / across,
                   right_panels_ * (at + 1) / across, parts);
      }
      if (out_.past) Engine::complete_writes();
    });
  }
  void stream_job(std::int64_t terms, std::int64_t blocks, std::int64_t i, std::int64_t i_end, std::int64_t j,
                  std::int64_t j_end, std::int32_t* parts) const {
    const std::int64_t tiles = i_end - i, span = blocks > 1 ? kResumed : j_end - j;
    const std::int64_t slots = blocks > 1 ? tiles * span + 1 : tiles + 1;
    Pending pending;  // rounded with the next tile, where there is any
    bool any = false;
    for (std::int64_t first = j; first < j_end; first += span) {
      const std::int64_t last = std::min(j_end, first + span);
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t n = padded(std::min<std::int64_t>(Engine::kBlock, terms - block * Engine::kBlock));
        const std::uint8_t* right = right_packed_ + (block * right_panels_ + first) * right_slot_;
        for (std::int64_t q = first; q < last; ++q, right += right_slot_) {
          Pending current;
          begin_columns(current, q);
          const std::uint8_t* next = q + 1 < last ? right + right_slot_ : right;
          const std::int64_t share = up(right_slot_, 64 * tiles) / tiles;
          for (std::int64_t p = 0; p < tiles; ++p) {
            std::int32_t* own = parts + (q * tiles + p) % slots * kTileParts;
            Engine::multiply(n, left_packed_ + (block * left_panels_ + i + p) * left_slot_, right, own, block > 0,
                             [&](std::int64_t step, std::int64_t steps) {
                               const std::int64_t fetched = share * (step + 1) / steps;
                               for (std::int64_t byte = share * step / steps; byte < fetched; byte += 64)
                                 __builtin_prefetch(next + p * share + byte, 0, 2);
                               const std::int64_t row = Engine::kRows * step / steps;
                               const std::int64_t row_end = Engine::kRows * (step + 1) / steps;
                               fetch_outputs(current, i + p, row, row_end);
                               if (any) round_rows(pending, row, row_end);
                             });
            any = block + 1 == blocks;
            if (!any) continue;
            pending = current;
            begin_rows(pending, i + p, own);
          }
        }
      }
    }
    if (any) round_rows(pending, 0, Engine::kRows);
  }
  static constexpr std::int64_t kTileParts = std::int64_t{Engine::kParts} * Engine::kRows * Engine::kColumns;

  // n values of left row l from right row r on: what is added, then to outputs at to[...], which may lie side by side.
  void put(std::int64_t l, std::int64_t r, std::int64_t n, float* values, const std::int64_t* to, bool adjacent) const {
    add(l, r, n, values);
    float* c = out_.c + out_.left_offset[l];
    if (adjacent) {
      std::memcpy(c + to[0], values, static_cast<std::size_t>(n) * sizeof(float));
    } else {
      for (std::int64_t q = 0; q < n; ++q) c[to[q]] = values[q];
    }
  }

  // Outputs [row, row_end) x [column, column_end) of the chunk, padding among them; `sums` begins with the first.
  void finish(const Sums& all, std::int64_t row, std::int64_t row_end, std::int64_t column,
              std::int64_t column_end) const {
    row_end = std::min(row_end, rows_), column_end = std::min(column_end, columns_);
    float values[kJobColumns];
    Scale scales[kJobColumns];
    for (std::int64_t q = column; q < column_end; ++q) scales[q - column] = right_.scale(first_column_ + q);
    const std::int64_t* to = out_.right_offset + first_column_ + column;
    const std::int64_t n = column_end - column;
    const bool adjacent = run_length(to, n) == n;
    for (std::int64_t p = row; p < row_end; ++p) {
      const std::int64_t l = first_row_ + p;
      const Scale& scale = left_.scale(l);
      const Sum* sums = all.at + (p - row) * all.stride;
      for (std::int64_t q = 0; q < n; ++q) values[q] = rounded(sums[q], scale, scales[q]);
      put(l, first_column_ + column, n, values, to, adjacent);
    }
  }

  void add(std::int64_t l, std::int64_t r, std::int64_t n, float* values) const {
    if (out_.alpha != 1.0f) {
      for (std::int64_t q = 0; q < n; ++q) values[q] = out_.alpha * values[q];
    }
    if (out_.bias != nullptr) {
      const float bias = out_.bias[l];
      for (std::int64_t q = 0; q < n; ++q) values[q] = values[q] + bias;
    }
    if (out_.addend == nullptr) return;
    const float* addend = out_.addend + l * out_.addend_left_stride + r * out_.addend_right_stride;
    const float beta = out_.beta;
    if (out_.addend_right_stride == 1 && beta == 1.0f) {
      for (std::int64_t q = 0; q < n; ++q) values[q] = addend[q] + values[q];
      return;
    }
    for (std::int64_t q = 0; q < n; ++q) {
      const float d = addend[q * out_.addend_right_stride];
      values[q] = (beta == 1.0f ? d : beta * d) + values[q];
    }
  }

  const Side& left_;
  const Side& right_;
  std::int64_t terms_;
  const Output& out_;
  std::int64_t first_row_ = 0, rows_ = 0, first_column_ = 0, columns_ = 0;  // of the chunk
  std::int64_t blocks_ = 0;                                                 // of a chunk's terms, at most
  std::int64_t left_panels_ = 0, right_panels_ = 0, left_slot_ = 0, right_slot_ = 0, stride_ = 0;
  std::uint8_t *left_packed_ = nullptr, *right_packed_ = nullptr;
  const double *left_powers_ = nullptr, *right_powers_ = nullptr;  // of the chunk's rows, where it streams
  Sum* sums_ = nullptr;                                            // [left panels * kRows][stride]
};

template <class Engine>
void product(const Side& left, const Side& right, std::int64_t terms, const Output& out) {
  static_assert(Engine::kBlock % Engine::kStep == 0 && kChunkTerms % Engine::kBlock == 0);
  static_assert(Engine::kPacked % Engine::kStep == 0 && Engine::kBlock % Engine::kPacked == 0);
  static_assert(kJobColumns % Engine::kColumns == 0);
  if (left.rows == 0 || right.rows == 0) return;
  if (terms < std::int64_t{1} << 23)
    Product<Engine, double>(left, right, terms, out).run();
  else
    Product<Engine, std::int64_t>(left, right, terms, out).run();
}

}  // namespace isobit::kernels::ISOBIT_ISA::exact

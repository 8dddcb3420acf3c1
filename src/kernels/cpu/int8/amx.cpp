// Products of the exact tier by AMX: tdpbssd adds a 16 x 64 tile of signed bytes times a 64 x 16 one to 16 x 16 int32.
//
// A tile of ours is 32 x 16: three groups of two accumulators, one tile of the left digits and one of the right at a
// time. Six products a step of 64 terms. Each accumulator gets at most three products of 2^14 a term: no overflow below
// 43,690 terms.
//
// Compiled twice: for the instructions, and with each written out (ISOBIT_EMULATED), so that packing, edges and blocks
// are tested on any machine.
#include "kernels/cpu/exact/digits.h"
#include "kernels/cpu/exact/problems.h"
#include "kernels/cpu/int8/digit_tiles.h"

#if !defined(ISOBIT_EMULATED)
#include <immintrin.h>
#endif

namespace isobit::kernels::ISOBIT_ISA {
namespace {

#if defined(ISOBIT_EMULATED)
struct Tiles {
  std::int32_t sum[6][16][16];
  std::uint8_t left[16][64], right[16][64];

  template <int kTile>
  void zero() {
    std::memset(sum[kTile], 0, sizeof sum[kTile]);
  }
  void load_left(const std::uint8_t* p) { std::memcpy(left, p, sizeof left); }
  void load_right(const std::uint8_t* p) { std::memcpy(right, p, sizeof right); }
  // tdpbssd: row m of the left tile by the four-byte groups of column n of the right one.
  template <int kTile>
  void add_products() {
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 64; ++k) {
        for (int n = 0; n < 16; ++n) {
          sum[kTile][m][n] +=
              static_cast<std::int8_t>(left[m][k]) * static_cast<std::int8_t>(right[k / 4][n * 4 + k % 4]);
        }
      }
    }
  }
  template <int kTile>
  void load(const std::int32_t* p) {
    std::memcpy(sum[kTile], p, sizeof sum[kTile]);
  }
  template <int kTile>
  void store(std::int32_t* p) const {
    std::memcpy(p, sum[kTile], sizeof sum[kTile]);
  }
};
struct TileSession {
  TileSession() {}
};
#else
// The compiler wants a tile's number spelt out.
#define ISOBIT_WITH_TILE(call, ...)                             \
  if constexpr (kTile == 0) call(0 __VA_OPT__(, ) __VA_ARGS__); \
  if constexpr (kTile == 1) call(1 __VA_OPT__(, ) __VA_ARGS__); \
  if constexpr (kTile == 2) call(2 __VA_OPT__(, ) __VA_ARGS__); \
  if constexpr (kTile == 3) call(3 __VA_OPT__(, ) __VA_ARGS__); \
  if constexpr (kTile == 4) call(4 __VA_OPT__(, ) __VA_ARGS__); \
  if constexpr (kTile == 5) call(5 __VA_OPT__(, ) __VA_ARGS__);
struct Tiles {
  template <int kTile>
  void zero() {
    ISOBIT_WITH_TILE(_tile_zero)
  }
  void load_left(const std::uint8_t* p) { _tile_loadd(6, p, 64); }
  void load_right(const std::uint8_t* p) { _tile_loadd(7, p, 64); }
  template <int kTile>
  void add_products() {
    ISOBIT_WITH_TILE(_tile_dpbssd, 6, 7)
  }
  template <int kTile>
  void load(const std::int32_t* p) {
    ISOBIT_WITH_TILE(_tile_loadd, p, 64)
  }
  template <int kTile>
  void store(std::int32_t* p) const {
    ISOBIT_WITH_TILE(_tile_stored, p, 64)
  }
};
#undef ISOBIT_WITH_TILE
// A thread's tiles, 16 rows of 64 bytes each, while it multiplies; released, so that a switch of threads need not save
// them.
struct TileSession {
  TileSession() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } configuration;
    _tile_loadconfig(&configuration);
  }
  ~TileSession() { _tile_release(); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};
#endif

struct AmxEngine {
  static constexpr int kRows = 32, kColumns = 16;
  static constexpr std::int64_t kStep = 64, kBlock = 2048, kPacked = 128;
  static constexpr bool kPacksAlong = true, kResumes = true, kPacksFloats = true;
  static constexpr int kParts = 3;
  static constexpr std::int32_t kWeights[kParts] = {65536, 256, 1};
  static constexpr std::int64_t kTileBytes = 1024;

  using Session = TileSession;

  static constexpr std::int64_t left_bytes(std::int64_t terms) { return terms * 3 * kRows; }
  static constexpr std::int64_t right_bytes(std::int64_t terms) { return terms * 3 * kColumns; }

  // values[r * terms + k] -> [k / 64][digit][r / 16][r % 16][k % 64]
  static void pack_left(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    for (std::int64_t step = 0; step < terms; step += kStep, to += 6 * kTileBytes) {
      for (int r = 0; r < kRows; ++r) {
        for (int digit = 0; digit < 3; ++digit) {
          exact::line_digits(values + r * terms + step, kStep, digit,
                             to + (digit * 2 + r / 16) * kTileBytes + r % 16 * 64);
        }
      }
    }
  }

  // values[k * kColumns + c] -> [k / 64][digit][k % 64 / 4][c][k % 4]
  static void pack_right(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    for (std::int64_t step = 0; step < terms; step += kStep, to += 3 * kTileBytes) {
      for (int k = 0; k < kStep; k += 4, values += 4 * kColumns) {
        for (int digit = 0; digit < 3; ++digit)
          exact::pack_terms<kColumns>(values, digit, exact::kSigned, to + digit * kTileBytes + k / 4 * 64);
      }
    }
  }

  // values[c * terms + k] -> the same: a column's four bytes are one word, and 16 x 16 words are transposed.
  static void pack_right_along(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    for (std::int64_t step = 0; step < terms; step += kStep) {
      for (int digit = 0; digit < 3; ++digit, to += kTileBytes) {
        alignas(64) std::uint32_t words[kColumns][16];
        for (int c = 0; c < kColumns; ++c) {
          exact::line_digits(values + c * terms + step, kStep, digit, reinterpret_cast<std::uint8_t*>(words[c]));
        }
        turn(words, to);
      }
    }
  }

  // From floats (digit_tiles.h): a whole block of terms, padded to a multiple of kStep.
  static void pack_left_floats(const float* x, std::int64_t stride, const float* first, std::int64_t rows,
                               std::int64_t terms, std::uint8_t* to) {
    if (rows < kRows) std::memset(to, 0, static_cast<std::size_t>(left_bytes((terms + kStep - 1) / kStep * kStep)));
    left_tiles(x, stride, first, rows, terms, to);
  }
  static void pack_left_floats_across(const float* x, const std::int64_t* term, const float* first, std::int64_t rows,
                                      std::int64_t terms, std::uint8_t* to) {
    left_tiles_across(x, term, first, rows, terms, to);
  }
  static void pack_right_floats_along(const float* x, std::int64_t stride, const float* first, std::int64_t rows,
                                      std::int64_t terms, std::uint8_t* to) {
    right_tiles_along(x, stride, first, rows, terms, to);
  }
  static void pack_right_floats_across(const float* x, const std::int64_t* term, const float* first,
                                       std::int64_t columns, std::int64_t terms, std::int64_t slot, std::uint8_t* to) {
    right_tiles_across(x, term, first, columns, terms, slot, to);
  }

  // parts[group][32][16], added to where `resumes`. meanwhile(step, steps) is called before each step of 64 terms: what
  // it does takes other units of the processor.
  //
  // An accumulator is used again after four others: a product is ready 52 cycles after it began, and one begins every
  // 16. That is why products of one group do not follow each other.
  template <class Meanwhile>
  static void multiply(std::int64_t terms, const std::uint8_t* left, const std::uint8_t* right, std::int32_t* parts,
                       bool resumes, const Meanwhile& meanwhile) {
    Tiles t;
    if (resumes) {
      t.load<0>(parts), t.load<3>(parts + 256), t.load<1>(parts + 512), t.load<4>(parts + 768);
      t.load<2>(parts + 1024), t.load<5>(parts + 1280);
    } else {
      t.zero<0>(), t.zero<1>(), t.zero<2>(), t.zero<3>(), t.zero<4>(), t.zero<5>();
    }
    const std::int64_t steps = terms / kStep;
    for (std::int64_t step = 0; step < steps; ++step, left += 6 * kTileBytes, right += 3 * kTileBytes) {
      meanwhile(step, steps);
      t.load_right(right + 2 * kTileBytes);
      t.load_left(left), t.add_products<2>();
      t.load_left(left + kTileBytes), t.add_products<5>();
      t.load_right(right + kTileBytes);
      t.load_left(left), t.add_products<1>();
      t.load_left(left + kTileBytes), t.add_products<4>();
      t.load_left(left + 2 * kTileBytes), t.add_products<2>();
      t.load_left(left + 3 * kTileBytes), t.add_products<5>();
      t.load_right(right);
      t.load_left(left + 2 * kTileBytes), t.add_products<1>();
      t.load_left(left + 3 * kTileBytes), t.add_products<4>();
      t.load_left(left + 4 * kTileBytes), t.add_products<2>();
      t.load_left(left + 5 * kTileBytes), t.add_products<5>();
      t.load_left(left), t.add_products<0>();
      t.load_left(left + kTileBytes), t.add_products<3>();
    }
    t.store<0>(parts), t.store<3>(parts + 256);
    t.store<1>(parts + 512), t.store<4>(parts + 768);
    t.store<2>(parts + 1024), t.store<5>(parts + 1280);
  }
  static void round_rows(const std::int32_t* parts, const double* row_power, const double* column_power,
                         std::int64_t begin, std::int64_t end, float* c, const std::int64_t* offset,
                         const float* addend, std::int64_t addend_stride, bool past) {
    static_assert(kRows == 32 && kColumns == kTileLines);
    round_tile_rows(parts, row_power, column_power, begin, end, c, offset, addend, addend_stride, past);
  }
  static void complete_writes() { isobit::kernels::ISOBIT_ISA::complete_writes(); }
  static void multiply(std::int64_t terms, const std::uint8_t* left, const std::uint8_t* right, std::int32_t* parts) {
    multiply(terms, left, right, parts, false, [](std::int64_t, std::int64_t) {});
  }
};

}  // namespace

void fill_exact_products(KernelTable& t) { exact::fill<AmxEngine>(t); }

}  // namespace isobit::kernels::ISOBIT_ISA

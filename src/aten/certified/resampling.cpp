// Interpolation of images and the gradients of padding, dimension by dimension (contract, section 12).
#include <array>

#include "aten/certified/support/axis_taps.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Scale = std::optional<double>;
using Scales = std::array<Scale, 3>;
using Kind = Interpolation;

bool copies(Kind kind) { return kind == Kind::nearest || kind == Kind::nearest_exact; }

std::string name_of(Kind kind, std::size_t rank) {
  static constexpr const char* kLinear[] = {"linear1d", "bilinear2d", "trilinear3d"};
  const std::string digit = std::to_string(rank) + "d";
  switch (kind) {
    case Kind::nearest: return "aten::upsample_nearest" + digit;
    case Kind::nearest_exact: return "aten::_upsample_nearest_exact" + digit;
    case Kind::linear: return std::string("aten::upsample_") + kLinear[rank - 1];
    case Kind::cubic: return "aten::upsample_bicubic2d";
    case Kind::linear_antialiased: return "aten::_upsample_bilinear2d_aa";
    case Kind::cubic_antialiased: return "aten::_upsample_bicubic2d_aa";
  }
  return "?";
}

void check_sizes(const std::string& op, const Tensor& x, IntArrayRef in, IntArrayRef out, std::size_t rank) {
  require_float(op, x);
  TORCH_CHECK(in.size() == rank + 2 && out.size() == rank, op, ": an input of ", rank + 2, " dimensions and ", rank,
              " output sizes expected, got ", in, " and ", out);
  for (std::size_t d = 0; d < rank; ++d) {
    TORCH_CHECK(in[d + 2] > 0 && out[d] > 0, op, ": sizes must be positive, got input ", in, " and output ", out);
  }
}

Tensor interpolate(Kind kind, const Tensor& given, IntArrayRef out, bool align, const Scales& scales) {
  if (given.scalar_type() == at::kByte && given.is_cpu() && working_device() == nullptr) {  // images of bytes
    const Tensor values = interpolate(kind, given.to(at::kFloat), out, align, scales);
    return values.round().clamp(0, 255).to(at::kByte);
  }
  const Tensor& x = given;
  check_sizes(name_of(kind, out.size()), x, x.sizes(), out, out.size());
  Tensor y = contiguous(x);
  std::size_t left = out.size();  // dimensions to do, the last first
  const auto taps_along = [&](std::size_t d) {
    return interpolation_taps(kind, x.size(static_cast<std::int64_t>(d) + 2), out[d], align, scales[d]);
  };
  if (copies(kind) && left >= 2 && working_device() == nullptr) {
    y = copy_grid(taps_along(left - 2), taps_along(left - 1), y);
    left -= 2;
  }
  for (std::size_t d = left; d-- > 0;) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    const AxisTaps taps = taps_along(d);
    y = copies(kind) ? copy_taps(taps, y, dim) : apply_taps(taps, y, dim);
  }
  return y;
}

Tensor interpolate_backward(Kind kind, const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align,
                            const Scales& scales) {
  const std::string op = name_of(kind, out.size()) + "_backward";
  check_sizes(op, dy, in, out, out.size());
  at::DimVector expected(in);
  for (std::size_t d = 0; d < out.size(); ++d) expected[d + 2] = out[d];
  TORCH_CHECK(dy.sizes() == IntArrayRef(expected), op, ": grad_output has sizes ", dy.sizes(),
              ", not those of the output");
  Tensor dx = dy;
  const auto taps_along = [&](std::size_t d) {
    return transposed(interpolation_taps(kind, in[d + 2], out[d], align, scales[d]));
  };
  std::size_t d = 0;
  if (copies(kind) && out.size() >= 2) {
    if (out.size() == 3) dx = apply_taps(taps_along(d++), dx, 2);
    return apply_grid(taps_along(d), taps_along(d + 1), dx);
  }
  for (; d < out.size(); ++d) dx = apply_taps(taps_along(d), dx, static_cast<std::int64_t>(d) + 2);
  return dx;
}

Tensor& into(const Tensor& result, Tensor& out) { return float_out("an interpolation's out", result, out); }

template <Kind kind>
struct Nearest {
  static Tensor one(const Tensor& x, IntArrayRef size, Scale w) { return interpolate(kind, x, size, false, {w}); }
  static Tensor two(const Tensor& x, IntArrayRef size, Scale h, Scale w) {
    return interpolate(kind, x, size, false, {h, w});
  }
  static Tensor three(const Tensor& x, IntArrayRef size, Scale d, Scale h, Scale w) {
    return interpolate(kind, x, size, false, {d, h, w});
  }
  static Tensor& one_out(const Tensor& x, IntArrayRef size, Scale w, Tensor& out) { return into(one(x, size, w), out); }
  static Tensor& two_out(const Tensor& x, IntArrayRef size, Scale h, Scale w, Tensor& out) {
    return into(two(x, size, h, w), out);
  }
  static Tensor& three_out(const Tensor& x, IntArrayRef size, Scale d, Scale h, Scale w, Tensor& out) {
    return into(three(x, size, d, h, w), out);
  }

  static Tensor one_back(const Tensor& dy, IntArrayRef out, IntArrayRef in, Scale w) {
    return interpolate_backward(kind, dy, out, in, false, {w});
  }
  static Tensor two_back(const Tensor& dy, IntArrayRef out, IntArrayRef in, Scale h, Scale w) {
    return interpolate_backward(kind, dy, out, in, false, {h, w});
  }
  static Tensor three_back(const Tensor& dy, IntArrayRef out, IntArrayRef in, Scale d, Scale h, Scale w) {
    return interpolate_backward(kind, dy, out, in, false, {d, h, w});
  }
  static Tensor& one_back_out(const Tensor& dy, IntArrayRef out, IntArrayRef in, Scale w, Tensor& dx) {
    return into(one_back(dy, out, in, w), dx);
  }
  static Tensor& two_back_out(const Tensor& dy, IntArrayRef out, IntArrayRef in, Scale h, Scale w, Tensor& dx) {
    return into(two_back(dy, out, in, h, w), dx);
  }
  static Tensor& three_back_out(const Tensor& dy, IntArrayRef out, IntArrayRef in, Scale d, Scale h, Scale w,
                                Tensor& dx) {
    return into(three_back(dy, out, in, d, h, w), dx);
  }
};

template <Kind kind>
struct Weighted {
  static Tensor one(const Tensor& x, IntArrayRef size, bool align, Scale w) {
    return interpolate(kind, x, size, align, {w});
  }
  static Tensor two(const Tensor& x, IntArrayRef size, bool align, Scale h, Scale w) {
    return interpolate(kind, x, size, align, {h, w});
  }
  static Tensor three(const Tensor& x, IntArrayRef size, bool align, Scale d, Scale h, Scale w) {
    return interpolate(kind, x, size, align, {d, h, w});
  }
  static Tensor& one_out(const Tensor& x, IntArrayRef size, bool align, Scale w, Tensor& out) {
    return into(one(x, size, align, w), out);
  }
  static Tensor& two_out(const Tensor& x, IntArrayRef size, bool align, Scale h, Scale w, Tensor& out) {
    return into(two(x, size, align, h, w), out);
  }
  static Tensor& three_out(const Tensor& x, IntArrayRef size, bool align, Scale d, Scale h, Scale w, Tensor& out) {
    return into(three(x, size, align, d, h, w), out);
  }

  static Tensor one_back(const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align, Scale w) {
    return interpolate_backward(kind, dy, out, in, align, {w});
  }
  static Tensor two_back(const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align, Scale h, Scale w) {
    return interpolate_backward(kind, dy, out, in, align, {h, w});
  }
  static Tensor three_back(const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align, Scale d, Scale h, Scale w) {
    return interpolate_backward(kind, dy, out, in, align, {d, h, w});
  }
  static Tensor& one_back_out(const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align, Scale w, Tensor& dx) {
    return into(one_back(dy, out, in, align, w), dx);
  }
  static Tensor& two_back_out(const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align, Scale h, Scale w,
                              Tensor& dx) {
    return into(two_back(dy, out, in, align, h, w), dx);
  }
  static Tensor& three_back_out(const Tensor& dy, IntArrayRef out, IntArrayRef in, bool align, Scale d, Scale h,
                                Scale w, Tensor& dx) {
    return into(three_back(dy, out, in, align, d, h, w), dx);
  }
};

// ---- padding: the gradient of an element is the sum of those of its copies

template <bool reflect, std::int64_t rank>
Tensor padding_backward(const Tensor& dy, const Tensor& x, IntArrayRef padding) {
  const std::string op =
      std::string("aten::") + (reflect ? "reflection" : "replication") + "_pad" + std::to_string(rank) + "d_backward";
  require_float(op, {&dy, &x});
  TORCH_CHECK(padding.size() == 2 * rank && (x.dim() == rank + 1 || x.dim() == rank + 2), op, ": input ", x.sizes(),
              " for padding ", padding);
  TORCH_CHECK(dy.dim() == x.dim(), op, ": grad_output has sizes ", dy.sizes());
  Tensor dx = dy;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t dim = x.dim() - rank + d;
    const auto pair = static_cast<std::size_t>(2 * (rank - 1 - d));
    const AxisTaps taps = padding_taps(reflect, x.size(dim), padding[pair], padding[pair + 1]);
    TORCH_CHECK(dy.size(dim) == taps.out(), op, ": grad_output has sizes ", dy.sizes(), ", not those of the output");
    dx = apply_taps(transposed(taps), dx, dim);
  }
  return dx;
}
template <bool reflect, std::int64_t rank>
Tensor& padding_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef padding, Tensor& dx) {
  return into(padding_backward<reflect, rank>(dy, x, padding), dx);
}

constexpr std::string_view kSums = "12: chains of fma, the last dimension first; gradient the first";
constexpr std::string_view kCopies = "12: the nearest element";

template <auto& forward, auto& forward_out, auto& backward, auto& backward_out>
void add(std::vector<Entry>& all, std::string_view name, std::string_view backward_name, bool copied) {
  all.push_back(certify<forward>(name, "", copied ? kCopies : kSums));
  all.push_back(certify<forward_out>(name, "out", copied ? kCopies : kSums));
  all.push_back(certify<backward>(backward_name, "", kSums));
  all.push_back(certify<backward_out>(backward_name, "grad_input", kSums));
}
template <class Of>
void add_one(std::vector<Entry>& all, std::string_view name, std::string_view backward_name, bool copied = false) {
  add<Of::one, Of::one_out, Of::one_back, Of::one_back_out>(all, name, backward_name, copied);
}
template <class Of>
void add_two(std::vector<Entry>& all, std::string_view name, std::string_view backward_name, bool copied = false) {
  add<Of::two, Of::two_out, Of::two_back, Of::two_back_out>(all, name, backward_name, copied);
}
template <class Of>
void add_three(std::vector<Entry>& all, std::string_view name, std::string_view backward_name, bool copied = false) {
  add<Of::three, Of::three_out, Of::three_back, Of::three_back_out>(all, name, backward_name, copied);
}

template <bool reflect, std::int64_t rank>
void add_padding(std::vector<Entry>& all, std::string_view name) {
  all.push_back(certify<padding_backward<reflect, rank>>(name, "", kSums));
  all.push_back(certify<padding_backward_out<reflect, rank>>(name, "grad_input", kSums));
}

}  // namespace

std::vector<Entry> resampling_operators() {
  std::vector<Entry> all;
  using Exact = Nearest<Kind::nearest_exact>;
  add_one<Nearest<Kind::nearest>>(all, "aten::upsample_nearest1d", "aten::upsample_nearest1d_backward", true);
  add_two<Nearest<Kind::nearest>>(all, "aten::upsample_nearest2d", "aten::upsample_nearest2d_backward", true);
  add_three<Nearest<Kind::nearest>>(all, "aten::upsample_nearest3d", "aten::upsample_nearest3d_backward", true);
  add_one<Exact>(all, "aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact1d_backward", true);
  add_two<Exact>(all, "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact2d_backward", true);
  add_three<Exact>(all, "aten::_upsample_nearest_exact3d", "aten::_upsample_nearest_exact3d_backward", true);
  add_one<Weighted<Kind::linear>>(all, "aten::upsample_linear1d", "aten::upsample_linear1d_backward");
  add_two<Weighted<Kind::linear>>(all, "aten::upsample_bilinear2d", "aten::upsample_bilinear2d_backward");
  add_three<Weighted<Kind::linear>>(all, "aten::upsample_trilinear3d", "aten::upsample_trilinear3d_backward");
  add_two<Weighted<Kind::cubic>>(all, "aten::upsample_bicubic2d", "aten::upsample_bicubic2d_backward");
  add_two<Weighted<Kind::linear_antialiased>>(all, "aten::_upsample_bilinear2d_aa",
                                              "aten::_upsample_bilinear2d_aa_backward");
  add_two<Weighted<Kind::cubic_antialiased>>(all, "aten::_upsample_bicubic2d_aa",
                                             "aten::_upsample_bicubic2d_aa_backward");
  add_padding<true, 1>(all, "aten::reflection_pad1d_backward");
  add_padding<true, 2>(all, "aten::reflection_pad2d_backward");
  add_padding<true, 3>(all, "aten::reflection_pad3d_backward");
  add_padding<false, 1>(all, "aten::replication_pad1d_backward");
  add_padding<false, 2>(all, "aten::replication_pad2d_backward");
  add_padding<false, 3>(all, "aten::replication_pad3d_backward");
  return all;
}

}  // namespace isobit::aten

// Numbers of the gamma, Dirichlet, Poisson and binomial distributions (contract, section 5), and how a Dirichlet number
// moves with its concentrations (section 10).
//
// Every element has its own draws of the key: bits depend neither on the number of threads nor on other elements, but
// for the sum that divides a row of a Dirichlet number. Outputs may not overlap inputs. On the host only: throws
// DeviceError within a DeviceScope. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

void draw_gamma(std::uint64_t key, const float* shape, float* out, std::int64_t n);
// Row by row: concentrations [rows, width], numbers in [2^-126, 1 - 2^-24] that sum to nearly 1. Element e of the
// stream is e of the flat array.
void draw_dirichlet(std::uint64_t key, const float* concentration, float* out, std::int64_t rows, std::int64_t width);
void draw_poisson(std::uint64_t key, const float* rate, float* out, std::int64_t n);
void draw_binomial(std::uint64_t key, const float* count, const float* p, float* out, std::int64_t n);
// -(dI/da) / (dI/dx) / (1 - x), I the distribution Beta(a, total - a) at x.
void dirichlet_slope(const float* x, const float* a, const float* total, float* out, std::int64_t n);

}  // namespace isobit::kernels

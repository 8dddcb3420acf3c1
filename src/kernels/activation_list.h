// The operators of activation.h: a line each makes enum, implementations, names and tests.
//
// Columns: the name; the formula of x, of u and v, or of u, v and w, and of the parameters a, b and c, over the lane
// type (kernels/formulas/activation_kernels.h); PyTorch's operator, without aten::. Arguments and parameters:
//
//   elu, its gradients      a = alpha * scale, b = scale, c = input_scale; _of_result takes (dy, y)
//   softplus                a = beta, b = threshold
//   shrinks                 a = lambda; both have the same gradient
//   gradients               (dy, x); of prelu (dy, x, slope), its slope's (dy, x) element by element
//   losses                  (x, target), gradients (dy, x, target); a = beta or delta; b = share: 1, or RN(1 / n) under
//                           a mean; of the squared error (x, target), a = RN(2 or 2 / n), b = dy
//   prelu, xlogy            (x, slope), (x, y)
#pragma once

// clang-format off
#define ISOBIT_UNARY_WITH(f) \
  f(elu,         contract::elu(x, a, b, c),   elu) \
  f(mish,        contract::mish(x),           mish) \
  f(softplus,    contract::softplus(x, a, b), softplus) \
  f(hardsigmoid, contract::hardsigmoid(x),    hardsigmoid) \
  f(hardswish,   contract::hardswish(x),      hardswish) \
  f(softshrink,  contract::softshrink(x, a),  softshrink) \
  f(hardshrink,  contract::shrink(x, x, a),   hardshrink) \
  f(log_sigmoid, contract::log_sigmoid(x),    log_sigmoid_forward)

#define ISOBIT_BINARY_WITH(f) \
  f(elu_backward,           contract::elu_backward(u, v, a, b, c),           elu_backward) \
  f(elu_backward_of_result, contract::elu_backward_of_result(u, v, a, b, c), elu_backward) \
  f(mish_backward,          contract::mish_backward(u, v),                   mish_backward) \
  f(softplus_backward,      contract::softplus_backward(u, v, a, b),         softplus_backward) \
  f(hardsigmoid_backward,   contract::hardsigmoid_backward(u, v),            hardsigmoid_backward) \
  f(hardswish_backward,     contract::hardswish_backward(u, v),              hardswish_backward) \
  f(shrink_backward,        contract::shrink(u, v, a),                       softshrink_backward) \
  f(log_sigmoid_backward,   contract::log_sigmoid_backward(u, v),            log_sigmoid_backward) \
  f(prelu,                  contract::prelu(u, v),                           _prelu_kernel) \
  f(prelu_slope_backward,   contract::prelu_slope_backward(u, v),            _prelu_kernel_backward) \
  f(squared_error,          contract::squared_error(u, v),                   mse_loss) \
  f(squared_error_backward, contract::squared_error_backward(u, v, a, b),    mse_loss_backward) \
  f(smooth_l1,              contract::smooth_l1(u, v, a),                    smooth_l1_loss) \
  f(huber,                  contract::huber(u, v, a),                        huber_loss) \
  f(binary_cross_entropy,   contract::binary_cross_entropy(u, v),            binary_cross_entropy) \
  f(xlogy,                  contract::xlogy(u, v),                           xlogy)

#define ISOBIT_TERNARY_WITH(f) \
  f(prelu_backward,                contract::prelu_backward(u, v, w),                _prelu_kernel_backward) \
  f(smooth_l1_backward,            contract::smooth_l1_backward(u, v, w, a, b),      smooth_l1_loss_backward) \
  f(huber_backward,                contract::huber_backward(u, v, w, a, b),          huber_loss_backward) \
  f(binary_cross_entropy_backward, contract::binary_cross_entropy_backward(u, v, w, b), binary_cross_entropy_backward)
// clang-format on

// bench/models/lstm.cpp: an LSTM (Hochreiter and Schmidhuber, 1997) over a sequence by scan, and its training.
#include "layers.hpp"

namespace models {
namespace {

struct network {
  linear input;  ///< all four gates side by side
  matrix hidden;
  linear head;
};

struct memory {
  matrix h, c;
};

memory advance(const network& net, const memory& m, const matrix& x) {
  const auto gates = split<1, 4>(evaluate(apply(net.input, x) + matmul(m.h, net.hidden)));
  const matrix c = sigmoid(gates[1] + 1) * m.c + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(c), c};
}

/// xs: (steps, batch, features); predicts the next features from all up to here.
tensor<float, 0> loss(const network& net, const sequence& xs, const sequence& next) {
  const matrix nothing = zeros<float>(xs.size(1), net.hidden.size(0));
  const auto body = [&](const memory& m, const matrix& x) {
    const memory now = advance(net, m, x);
    return std::pair{now, now.h};
  };
  const sequence states = scan(body, memory{nothing, nothing}, xs).second;
  return mse_loss(apply(net.head, states), next);
}

}  // namespace

std::vector<row> lstm_rows() {
  const auto train = [](const settings& s) {
    const int steps = s.length_or(64, 5), batch = s.batch_or(16, 3), features = s.small ? 6 : 128,
              width = s.small ? 8 : 256;
    key_stream keys(13);
    const network net{make_linear(keys, features, 4 * width), make_linear(keys, width, 4 * width).w,
                      make_linear(keys, width, features)};
    const sequence all = normal<float>(keys(), steps + 1, batch, features);
    return descended(s, "lstm_train", &loss, net, slice<0>(all, 0, steps).contiguous(), slice<0>(all, 1).contiguous());
  };
  return {{"lstm_train", true, 1e-4f, train}};
}

}  // namespace models

// csv_regression.cpp: a table of comma-separated values becomes a model: the rents of flats by their size, age, floor and quarter.
#include <sstream>

#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

#include "support/program.hpp"
using namespace sinter;

using network = nn::mlp<float, nn::relu>;

struct flats {
  f32_2 x;
  f32_1 rent;
};

/// A table by a rule: flats without a name in the first line, one a line.
std::string table(std::int64_t n) {
  const device_scope host(device::cpu());
  const auto [a, b, c, d, e] = split<5>(make_key(1));
  const f32_1 size = uniform<float>(a, n) * 100.f + 20.f, age = uniform<float>(b, n) * 80.f;
  const i64_1 floor = randint<std::int64_t>(c, 0, 8, n), quarter = randint<std::int64_t>(d, 0, 3, n);
  const f32_1 price = take(f32_1{9, 12, 17}, quarter) * (1.2f - 0.01f * age) + 0.2f * cast<float>(floor);
  const f32_1 rent = size * price + 20.f * normal<float>(e, n);
  std::ostringstream out;
  const char* names[] = {"north", "south", "centre"};
  for (std::int64_t i = 0; i < n; ++i)
    out << size(i) << "," << age(i) << "," << floor(i) << "," << names[quarter(i)] << "," << rent(i) << "\n";
  return out.str();
}

bool train(const arguments& given) {
  const std::int64_t epochs = given("epochs", 60);
  const data::table t = data::parse_csv(table(2000), {.header = false});
  const auto [quarter, names] = t.categories(3);
  const f32_2 x = concat<1>(t.matrix<float>({0, 1, 2}), one_hot(quarter, std::ssize(names)));
  const flats all{x.to(default_device()), t.column<float>(-1).to(default_device())};
  const auto [train, test] = data::train_test_split(all, {.test = 0.2, .shuffle = make_key(2)});
  const auto scale = data::fit_standard_scaler(train.x);
  const auto of_rent = data::fit_standard_scaler(train.rent);
  const auto loss = [&](const network& p, const flats& d) { return mse_loss(flatten(p(scale(d.x))), of_rent(d.rent)); };
  const optim::adamw opt({.rate = optim::cosine(1e-2, 25 * epochs)});
  const auto step = compile(optim::train_step(opt, loss), {.donate = {0, 1}});
  network p = network::init(make_key(3), {x.size(1), 32, 32, 1});
  auto state = opt.init(p);
  loss_curve losses;
  data::progress_bar bar(epochs);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto& part : data::batches(train, {.size = 64, .shuffle = fold_in(make_key(4), epoch)})) {
      f32_0 l;
      std::tie(l, p, state) = step(std::move(p), std::move(state), part);
      losses.add(l);
    }
    bar.show(epoch + 1, words("loss %.4f", losses.last(25)));
  }
  const float off = mean(abs(of_rent.inverse(flatten(p(scale(test.x)))) - test.rent)).item();
  losses.write(given("svg", "csv_regression.svg"), "csv_regression: loss");
  return below("rents are off by, where noise alone is 16", off, 20);
}

int main(int argc, char** argv) { return run_program(argc, argv, "", train); }

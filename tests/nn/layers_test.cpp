// Layers against loops over plain numbers, eagerly and by the reference backend; dropout; initialisers; what they refuse.
#include <sinter/sinter.hpp>

#include <sinter/io.hpp>
#include <sinter/nn.hpp>

#include "../close.hpp"
#include "../scratch_folder.hpp"

using namespace sinter;

namespace {

using vec = tensor<double, 1>;
using matrix = tensor<double, 2>;
using sequence = tensor<double, 3>;
using image = tensor<double, 4>;
using doubles = std::vector<double>;

/// f(x) eagerly and by the reference backend, which agree.
template <class F, class... X>
doubles both(const F& f, const X&... x) {
  const doubles eager = flatten(f(x...)).to_vector();
  check_close(flatten(compile(f, {.backend = "reference"})(x...)).to_vector(), eager, 1e-12);
  return eager;
}

/// Rows of `n` numbers as x·w + b of plain numbers.
doubles mapped(const doubles& x, const nn::linear<double>& f) {
  const auto in = static_cast<std::size_t>(f.weight.size(0)), out = static_cast<std::size_t>(f.weight.size(1));
  const doubles w = f.weight.to_vector(), b = f.bias ? f.bias->to_vector() : doubles(out);
  doubles y(x.size() / in * out);
  for (std::size_t r = 0; r < x.size() / in; ++r)
    for (std::size_t o = 0; o < out; ++o) {
      y[r * out + o] = b[o];
      for (std::size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * w[i * out + o];
    }
  return y;
}

/// Groups of numbers, each given by its index's group, with mean 0 and variance 1.
doubles normalised(const doubles& x, const std::vector<std::size_t>& group, double eps, bool centred = true) {
  doubles y = x;
  for (std::size_t g = 0; g <= *std::max_element(group.begin(), group.end()); ++g) {
    double n = 0, mean = 0, square = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (group[i] == g) n += 1, mean += x[i];
    mean = centred ? mean / n : 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (group[i] == g) square += (x[i] - mean) * (x[i] - mean);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (group[i] == g) y[i] = (x[i] - mean) / std::sqrt(square / n + eps);
  }
  return y;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("linear maps and embeddings") {
  const auto f = nn::linear<double>::init(make_key(1), 3, 4),
             plain = nn::linear<double>::init(make_key(2), 3, 2, {.bias = false});
  const sequence x = normal<double>(make_key(3), 2, 5, 3);
  check_close(both([](const nn::linear<double>& f, const sequence& x) { return f(x); }, f, x), mapped(x.to_vector(), f),
              1e-12);
  CHECK(!plain.bias);
  check_close(plain(x * 2.0).to_vector(), mapped(sequence(x * 2.0).to_vector(), plain), 1e-12);
  CHECK(f(vec{1, 2, 3}).size(0) == 4);
  const auto table = nn::embedding<double>::init(make_key(4), 6, 3);
  const tensor<std::int64_t, 2> at{{5, 0}, {2, 5}};
  check_close(both([](const auto& f, const tensor<std::int64_t, 2>& at) { return f(at); }, table, at),
              take(table.weight, at, axis<0>).to_vector(), 1e-15);
}

TEST_CASE("norms over features, groups, items and batches") {
  const image x = normal<double>(make_key(1), 3, 4, 2, 2) * 2.0 + 1.0;
  const doubles raw = x.to_vector();
  const auto groups_by = [&](auto&& of) {  // of (item, channel)
    std::vector<std::size_t> group(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) group[i] = of(i / 16, i / 4 % 4);
    return group;
  };
  const auto scaled = [](doubles y, const vec& w, const vec& b, auto&& channel) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] * w.to_vector()[channel(i)] + b.to_vector()[channel(i)];
    return y;
  };
  const auto of_image = [](std::size_t i) { return i / 4 % 4; };
  const vec w = normal<double>(make_key(2), 4), b = normal<double>(make_key(3), 4);
  const nn::group_norm<double> by_groups{w, b, 2, 1e-3};
  check_close(both([](const auto& f, const image& x) { return f(x); }, by_groups, x),
              scaled(normalised(raw, groups_by([](auto n, auto c) { return n * 2 + c / 2; }), 1e-3), w, b, of_image),
              1e-12);
  check_close(both([](const auto& f, const image& x) { return f(x); }, nn::instance_norm{}, x),
              normalised(raw, groups_by([](auto n, auto c) { return n * 4 + c; }), 1e-5), 1e-12);
  const matrix rows = reshape(x, 12, 4);
  std::vector<std::size_t> row(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) row[i] = i / 4;
  const auto last = [](std::size_t i) { return i % 4; };
  check_close(both([](const auto& f, const matrix& x) { return f(x); }, nn::layer_norm<double>{w, b, 1e-3}, rows),
              scaled(normalised(raw, row, 1e-3), w, b, last), 1e-12);
  check_close(nn::layer_norm<double>{w, std::nullopt}(rows).to_vector(),
              scaled(normalised(raw, row, 1e-5), w, zeros<double>(4), last), 1e-12);
  check_close(both([](const auto& f, const matrix& x) { return f(x); }, nn::rms_norm<double>{w, 1e-2}, rows),
              scaled(normalised(raw, row, 1e-2, false), w, zeros<double>(4), last), 1e-12);
}

TEST_CASE("batch_norm gives the statistics back") {
  const image x = normal<double>(make_key(1), 3, 4, 2, 2) * 2.0 + 1.0;
  auto norm = nn::batch_norm<double>::init(4, {.momentum = 0.25});
  norm.weight = normal<double>(make_key(2), 4);
  norm.bias = normal<double>(make_key(3), 4);
  const auto f = compile([](const nn::batch_norm<double>& norm, const image& x, const nn::batch_statistics<double>& s,
                            nn::mode how) { return norm(x, s, how); },
                         {.backend = "reference"});
  auto s = norm.statistics();
  const doubles raw = x.to_vector();
  doubles mean(4), variance(4), want(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) mean[i / 4 % 4] += raw[i] / 12;
  for (std::size_t i = 0; i < raw.size(); ++i)
    variance[i / 4 % 4] += (raw[i] - mean[i / 4 % 4]) * (raw[i] - mean[i / 4 % 4]) / 12;
  const doubles w = norm.weight.to_vector(), b = norm.bias.to_vector();
  const auto applied = [&](const doubles& m, const doubles& v) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const std::size_t c = i / 4 % 4;
      want[i] = (raw[i] - m[c]) / std::sqrt(v[c] + 1e-5) * w[c] + b[c];
    }
    return want;
  };
  const auto [y, next] = norm(x, s, nn::training);
  const auto [compiled, same] = f(norm, x, s, nn::training);
  check_close(y.to_vector(), applied(mean, variance), 1e-12);
  check_close(compiled.to_vector(), want, 1e-12);
  doubles moved_mean(4), moved_variance(4);
  for (std::size_t c = 0; c < 4; ++c) {
    moved_mean[c] = 0.25 * mean[c];
    moved_variance[c] = 0.75 + 0.25 * variance[c] * 12 / 11;
  }
  check_close(next.mean.to_vector(), moved_mean, 1e-12);
  check_close(same.variance.to_vector(), moved_variance, 1e-12);
  const auto [still, kept] = f(norm, x, next, nn::inference);
  check_close(still.to_vector(), applied(moved_mean, moved_variance), 1e-12);
  check_close(kept.mean.to_vector(), moved_mean, 1e-15);
}

struct state_block {
  nn::conv2d<double> map;
  nn::batch_norm<double> norm;
};
struct state_net {
  nn::batch_norm<double> first;
  std::vector<state_block> blocks;
  std::optional<nn::batch_norm<double>> some, none;
  std::array<nn::batch_norm<double>, 2> two;
  nn::sequential<nn::conv2d<double>, nn::batch_norm<double>, nn::relu> last;

  image operator()(const image& x, const nn::pass<double>& pass) const {
    image h = first(x, pass);
    for (const auto& b : blocks) h = b.norm(b.map(h), pass);
    h = (*some)(h, pass);
    for (const auto& n : two) h = n(h, pass);
    return last(h, pass);
  }
};
using statistics = nn::running_statistics<double>;

state_net make_state_net() {
  const auto norm = [] { return nn::batch_norm<double>::init(2, {.momentum = 0.5}); };
  const auto map = [](std::uint64_t seed) { return nn::conv2d<double>::init(make_key(seed), 2, 2, 1); };
  return {norm(), {{map(1), norm()}, {map(2), norm()}}, norm(), {}, {norm(), norm()}, {{map(3), norm(), {}}}};
}

/// state_net's call with the statistics of each norm written out.
std::pair<image, statistics> call_by_hand(const state_net& p, statistics s, const image& x, nn::mode how) {
  const auto through = [&](const nn::batch_norm<double>& n, const char* name, const image& h) {
    auto [y, next] = n(h, s.at(name), how);
    s.at(name) = next;
    return y;
  };
  image h = through(p.first, "first", x);
  h = through(p.blocks[0].norm, "blocks.0.norm", p.blocks[0].map(h));
  h = through(p.blocks[1].norm, "blocks.1.norm", p.blocks[1].map(h));
  h = through(*p.some, "some", h);
  h = through(p.two[1], "two.1", through(p.two[0], "two.0", h));
  h = through(std::get<1>(p.last.layers), "last.layers.1", std::get<0>(p.last.layers)(h));
  return {relu(h), s};
}

void check_statistics(const statistics& a, const statistics& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& x : b) {
    CAPTURE(x.first);
    check_close(a.at(x.first).mean.to_vector(), x.second.mean.to_vector(), 1e-12);
    check_close(a.at(x.first).variance.to_vector(), x.second.variance.to_vector(), 1e-12);
  }
}

TEST_CASE("the state of a model: the statistics of all its norms by their paths, which a pass hands out and moves") {
  const state_net p = make_state_net();
  const image x = normal<double>(make_key(4), 3, 2, 2, 2) * 2.0 + 1.0;
  statistics s = nn::state(p);
  CHECK(tree_paths(s) == std::vector<std::string>{"blocks.0.norm.mean", "blocks.0.norm.variance", "blocks.1.norm.mean",
                                                  "blocks.1.norm.variance", "first.mean", "first.variance",
                                                  "last.layers.1.mean", "last.layers.1.variance", "some.mean",
                                                  "some.variance", "two.0.mean", "two.0.variance", "two.1.mean",
                                                  "two.1.variance"});
  CHECK(s.at("some").variance.to_vector() == doubles{1, 1});
  const auto call = [](const state_net& p, const statistics& s, const image& x, nn::mode how) {
    const nn::pass pass(p, s, how);
    const image y = p(x, pass);
    return std::pair{y, pass.state()};
  };
  const auto compiled = compile(call, {.backend = "reference"});
  for (const nn::mode how : {nn::training, nn::training, nn::inference}) {
    const auto [want, after] = call_by_hand(p, s, x, how);
    const auto [y, next] = call(p, s, x, how);
    const auto [z, same] = compiled(p, s, x, how);
    check_close(y.to_vector(), want.to_vector(), 1e-12);
    check_close(z.to_vector(), want.to_vector(), 1e-12);
    check_statistics(next, after);
    check_statistics(same, after);
    if (how == nn::inference) check_statistics(after, s);
    else CHECK(std::abs(after.at("first").mean(0) - s.at("first").mean(0)) > 0.01);
    s = after;
  }
  CHECK(compiled.specialisations() == 2);
  const scratch_folder here;
  io::save(here.path + "/state.safetensors", s);
  statistics loaded = nn::state(p);
  io::load(here.path + "/state.safetensors", loaded);
  check_statistics(loaded, s);
  CHECK(nn::state(nn::identity{}).empty());
  CHECK(nn::state(p.first).at("").mean.to_vector() == doubles{0, 0});
  CHECK(nn::state(std::vector{nn::batch_norm<float>::init(3)}).at("0").variance(2) == 1.f);
  static_assert(std::is_same_v<decltype(nn::state(cast_tree<bf16>(nn::batch_norm<float>::init(3)))),
                               nn::running_statistics<float>>);
}

TEST_CASE("the state of a model in the bodies of scan and fori_loop: a pass of each item") {
  const state_net net = make_state_net();
  const std::vector<state_block>& blocks = net.blocks;
  const image x = normal<double>(make_key(7), 3, 2, 2, 2) + 0.5;
  const std::vector<statistics> first{nn::state(blocks[0]), nn::state(blocks[1])};
  image want = x;
  std::vector<statistics> after;
  for (std::size_t i = 0; i < 2; ++i) {
    const nn::pass pass(blocks[i], first[i], nn::training);
    want = blocks[i].norm(blocks[i].map(want), pass);
    after.push_back(pass.state());
  }
  const auto body = [](const image& h, const std::pair<state_block, statistics>& item) {
    const state_block& b = item.first;
    const nn::pass pass(b, item.second, nn::training);
    const image y = b.norm(b.map(h), pass);
    return std::pair{y, pass.state()};
  };
  const auto [y, next] = scan(body, x, std::pair{stack_tree(blocks), stack_tree(first)});
  check_close(y.to_vector(), want.to_vector(), 1e-12);
  const std::vector<statistics> each = unstack(next);
  REQUIRE(each.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) check_statistics(each[i], after[i]);

  const state_block& b = blocks[0];
  const auto [z, moved] = fori_loop(
      0, 3,
      [&](const auto&, const std::pair<image, statistics>& now) {
        const nn::pass pass(b, now.second, nn::training);
        const image h = b.norm(now.first, pass);
        return std::pair{h, pass.state()};
      },
      std::pair{x, first[0]});
  std::pair now{x, first[0]};
  for (int i = 0; i < 3; ++i) {
    const nn::pass pass(b, now.second, nn::training);
    const image h = b.norm(now.first, pass);
    now = {h, pass.state()};
  }
  check_close(z.to_vector(), now.first.to_vector(), 1e-12);
  check_statistics(moved, now.second);
}

TEST_CASE("the state of a model within value_and_grad and vmap") {
  const state_net p = make_state_net();
  const statistics s = nn::state(p);
  const image x = normal<double>(make_key(5), 3, 2, 2, 2);
  const auto loss = [&](const state_net& p) {
    const nn::pass pass(p, s, nn::training);
    return std::pair{tensor<double, 0>(mean(square(p(x, pass)))), pass.state()};
  };
  const auto step = compile([&](const state_net& p) { return value_and_grad(loss, has_aux)(p); });
  const auto [result, g] = step(p);
  check_statistics(result.second, call_by_hand(p, s, x, nn::training).second);
  const auto value = [&](double by) {
    state_net moved = p;
    moved.first.bias = tensor<double, 1>{by, 0.0};
    std::get<1>(moved.last.layers).weight = tensor<double, 1>{1.0 + by, 1.0};
    return mean(square(call_by_hand(moved, s, x, nn::training).first)).item();
  };
  const double slope = (value(1e-5) - value(-1e-5)) / 2e-5;
  CHECK(std::abs(slope) > 0.1);
  CHECK(g.first.bias(0) + std::get<1>(g.last.layers).weight(0) == doctest::Approx(slope).epsilon(1e-7));

  const sinter::tensor<double, 5> many = normal<double>(make_key(6), 2, 3, 2, 2, 2);
  const auto each = vmap([&](const image& x) {
    const nn::pass pass(p, s, nn::training);
    const image y = p(x, pass);
    return std::pair{y, pass.state().at("some").mean};
  })(many);
  for (int lane = 0; lane < 2; ++lane) {
    const auto [y, next] = call_by_hand(p, s, image(many[lane]), nn::training);
    check_close(flatten(each.first[lane]).to_vector(), flatten(y).to_vector(), 1e-12);
    check_close(tensor<double, 1>(each.second[lane]).to_vector(), next.at("some").mean.to_vector(), 1e-12);
  }
}

TEST_CASE("norms beside a large mean keep the digits of f32: of batches, groups and items") {
  tensor<float, 4> x = zeros<float>(5, 2, 10, 20);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data()[i] = static_cast<float>(10000 + 0.01 * static_cast<double>(i % 7));
  doubles raw;
  for (const float v : x.to_vector()) raw.push_back(v);
  const auto by = [&](auto&& of) {
    std::vector<std::size_t> group(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) group[i] = of(i);
    return normalised(raw, group, 1e-5);
  };
  const auto of_channel = by([](std::size_t i) { return i / 200 % 2; });
  const auto check = [&](const auto& f, const doubles& want) {
    check_close(f(x).to_vector(), want, 2e-6);
    check_close(compile(f)(x).to_vector(), want, 2e-6);
    check_close(compile(f, {.backend = "reference"})(x).to_vector(), want, 2e-6);
  };
  const auto batches = nn::batch_norm<float>::init(2, {.momentum = 1});
  const auto s = batches.statistics();
  check([&](const tensor<float, 4>& t) { return batches(t, s, nn::training).first; }, of_channel);
  const auto next = batches(x, s, nn::training).second;
  doubles mean(2), variance(2);
  for (std::size_t i = 0; i < raw.size(); ++i) mean[i / 200 % 2] += raw[i] / 1000;
  for (std::size_t i = 0; i < raw.size(); ++i)
    variance[i / 200 % 2] += (raw[i] - mean[i / 200 % 2]) * (raw[i] - mean[i / 200 % 2]) / 999;
  check_close(next.mean.to_vector(), mean, 1e-7);
  check_close(next.variance.to_vector(), variance, 1e-9);
  // By a mean that f32 holds, and a scale that no rounding of mean · scale would leave alone.
  auto known = s;
  known.mean = tensor<float, 1>{10000.03125f, 10000.f};
  known.variance = tensor<float, 1>{0.0004f, 0.0003f};
  doubles want(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i)
    want[i] = (raw[i] - (i / 200 % 2 ? 10000. : 10000.03125)) / std::sqrt((i / 200 % 2 ? 0.0003 : 0.0004) + 1e-5);
  check([&](const tensor<float, 4>& t) { return batches(t, known, nn::inference).first; }, want);
  const auto groups = nn::group_norm<float>::init(1, 2);
  check([&](const tensor<float, 4>& t) { return groups(t); }, by([](std::size_t i) { return i / 400; }));
  check([](const tensor<float, 4>& t) { return nn::instance_norm{}(t); }, by([](std::size_t i) { return i / 200; }));
}

TEST_CASE("attention: heads that share keys, causal, rotary, of another sequence") {
  const auto f = nn::self_attention<double>::init(make_key(1), 8, {.heads = 4, .key_heads = 2, .head_width = 2});
  const sequence x = normal<double>(make_key(2), 2, 3, 8);
  const doubles columns = mapped(x.to_vector(), f.qkv);  // (2, 3, 16): 8 of queries, 4 of keys, 4 of values
  doubles mixed(2 * 3 * 8);
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t h = 0; h < 4; ++h)
      for (std::size_t i = 0; i < 3; ++i) {
        const auto at = [&](std::size_t place, std::size_t column) { return columns[(n * 3 + place) * 16 + column]; };
        doubles e(3);
        double total = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t d = 0; d < 2; ++d) e[j] += at(i, h * 2 + d) * at(j, 8 + h / 2 * 2 + d) / std::sqrt(2.0);
          e[j] = std::exp(e[j]);
          total += e[j];
        }
        for (std::size_t d = 0; d < 2; ++d)
          for (std::size_t j = 0; j <= i; ++j)
            mixed[(n * 3 + i) * 8 + h * 2 + d] += e[j] / total * at(j, 12 + h / 2 * 2 + d);
      }
  check_close(both([](const auto& f, const sequence& x) { return f(x, causal); }, f, x), mapped(mixed, f.out), 1e-12);
  const matrix one = x[1];
  check_close(f(one, causal).to_vector(),
              sequence(f(x, causal)).to_vector().size() == 48 ? flatten(f(x, causal)[1]).to_vector() : doubles(),
              1e-12);

  const nn::self_attention<double, nn::rotary> turned{f.qkv, f.out, 4, 2, {100, true}};
  const sequence qkv = turned.qkv(x);
  const auto heads = [](const sequence& part, int n) {
    return tensor<double, 4>(permute(reshape(part, 2, 3, n, 2), axis<0, 2, 1, 3>));
  };
  const rotary_options how{100, true};
  const auto want = attention(rotary(heads(slice<-1>(qkv, 0, 8), 4), how), rotary(heads(slice<-1>(qkv, 8, 12), 2), how),
                              heads(slice<-1>(qkv, 12, 16), 2));
  check_close(turned(x).to_vector(),
              turned.out(sequence(reshape(permute(want, axis<0, 2, 1, 3>), 2, 3, 8))).to_vector(), 1e-12);

  const auto in_parts = [](const auto& f, const sequence& x) {
    const auto [a, first] = f(sequence(slice<1>(x, 0, 2)), f.cache(2, 3), causal);
    const auto [b, all] = f(sequence(slice<1>(x, 2)), first, causal);
    return sequence(concat<1>(a, b));
  };
  check_close(both(in_parts, f, x), sequence(f(x, causal)).to_vector(), 1e-12);
  check_close(both(in_parts, turned, x), sequence(turned(x, causal)).to_vector(), 1e-12);

  const auto g = nn::cross_attention<double>::init(make_key(3), 8, 5, {.heads = 2});
  const sequence context = normal<double>(make_key(4), 2, 4, 5);
  const auto wide = [](const sequence& part, int places) {
    return tensor<double, 4>(permute(reshape(part, 2, places, 2, 4), axis<0, 2, 1, 3>));
  };
  const sequence kv = g.kv(context);
  const auto other = attention(wide(g.query(x), 3), wide(slice<-1>(kv, 0, 8), 4), wide(slice<-1>(kv, 8, 16), 4));
  check_close(both([](const auto& g, const sequence& x, const sequence& c) { return g(x, c); }, g, x, context),
              g.out(sequence(reshape(permute(other, axis<0, 2, 1, 3>), 2, 3, 8))).to_vector(), 1e-12);
}

TEST_CASE("LSTM and GRU as PyTorch has them") {
  const auto f = nn::lstm<double>::init(make_key(1), 3, 2);
  const sequence x = normal<double>(make_key(2), 2, 4, 3);
  const auto g = nn::gru<double>::init(make_key(3), 3, 2);
  doubles h(4), c(4), want, want_gru, r(4);
  for (std::size_t t = 0; t < 4; ++t) {
    const doubles now = flatten(slice<1>(x, std::int64_t(t), std::int64_t(t) + 1)).to_vector();
    const doubles a = mapped(now, f.input), b = mapped(h, f.hidden), d = mapped(now, g.input), e = mapped(r, g.hidden);
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t i = 0; i < 2; ++i) {
        const auto gate = [&](std::size_t k) { return a[n * 8 + k * 2 + i] + b[n * 8 + k * 2 + i]; };
        c[n * 2 + i] = sigmoid_of(gate(1)) * c[n * 2 + i] + sigmoid_of(gate(0)) * std::tanh(gate(2));
        h[n * 2 + i] = sigmoid_of(gate(3)) * std::tanh(c[n * 2 + i]);
        const auto in = [&](std::size_t k) { return d[n * 6 + k * 2 + i]; };
        const auto own = [&](std::size_t k) { return e[n * 6 + k * 2 + i]; };
        const double z = sigmoid_of(in(1) + own(1)), fresh = std::tanh(in(2) + sigmoid_of(in(0) + own(0)) * own(2));
        r[n * 2 + i] = (1 - z) * fresh + z * r[n * 2 + i];
      }
    want.insert(want.end(), h.begin(), h.end());
    want_gru.insert(want_gru.end(), r.begin(), r.end());
  }
  const auto places_first = [](const sequence& y) { return tensor<double, 3>(permute(y, axis<1, 0, 2>)); };
  check_close(both([&](const auto& f, const sequence& x) { return places_first(f(x).first); }, f, x), want, 1e-12);
  check_close(both([&](const auto& g, const sequence& x) { return places_first(g(x).first); }, g, x), want_gru, 1e-12);
  const auto [y, last] = f(x, f.start(2));
  check_close(last.c.to_vector(), c, 1e-12);
  check_close(g(x).second.to_vector(), r, 1e-12);
}

TEST_CASE("convolutions with their options") {
  const auto f = nn::conv2d<double>::init(make_key(1), 4, 6, {3, 2}, {.stride = {2, 1}, .padding = same, .groups = 2});
  const image x = normal<double>(make_key(2), 2, 4, 5, 5);
  const auto want = conv2d(x, f.weight, {.stride = {2, 1}, .padding = same, .groups = 2}) + reshape(*f.bias, 6, 1, 1);
  check_close(both([](const auto& f, const image& x) { return f(x); }, f, x), image(want).to_vector(), 1e-12);
  const auto g =
      nn::conv_transpose1d<double>::init(make_key(3), 3, 2, 3, {.stride = 2, .output_padding = 1, .bias = false});
  const sequence s = normal<double>(make_key(4), 2, 3, 4);
  check_close(g(s).to_vector(), conv_transpose1d(s, g.weight, {.stride = 2, .output_padding = 1}).to_vector(), 1e-12);
  CHECK(nn::conv3d<float>::init(make_key(5), 2, 3, 2)(normal<float>(make_key(6), 1, 2, 3, 3, 3)).shape() ==
        std::array<dim, 5>{1, 3, 2, 2, 2});
}

TEST_CASE("sequential, mlp, summary, dtypes") {
  const auto net = nn::make_sequential(
      make_key(1), [](key k) { return nn::linear<float>::init(k, 3, 4); }, nn::relu{},
      [](key k) { return nn::linear<float>::init(k, 4, 2, {.bias = false}); });
  const tensor<float, 2> x = normal<float>(make_key(2), 5, 3);
  const auto& [first, act, second] = net.layers;
  check_close(net(x).to_vector(), matmul(relu(first(x)), second.weight).to_vector(), 1e-6);
  CHECK(nn::summary(net) ==
        "layers.0.weight  f32 (3, 4)  12\nlayers.0.bias    f32 (4,)     4\nlayers.2.weight  f32 (4, 2)   8\n"
        "total                        24  96 bytes\n");
  const auto m = nn::mlp<float, nn::tanh>::init(make_key(3), {3, 8, 1});
  check_close(m(x).to_vector(), m.layers[1](tanh(m.layers[0](x))).to_vector(), 1e-6);
  const auto b = nn::transformer_block<float>::init(make_key(4), 8, {.attention = {.heads = 2}});
  const tensor<float, 3> h = normal<float>(make_key(5), 2, 3, 8);
  const auto want = b(h, causal).to_vector();
  const tensor<float, 3> a = h + b.mix(b.n1(h), causal);
  check_close(want, tensor<float, 3>(a + b.down(gelu(b.up(b.n2(a))))).to_vector(), 1e-5);
  check_close(cast<float>(cast_tree<bf16>(b)(cast<bf16>(h), causal)).to_vector(), want, 3e-2);
  const auto low = autocast<bf16>([&](const tensor<float, 3>& h) { return b(h, causal); });
  check_close(low(h).to_vector(), want, 3e-2);
  CHECK(low(h).to_vector() != want);
  const tensor<bf16, 3> x16 = cast<bf16>(h);
  const auto g = compile(grad([&](const nn::transformer_block<bf16>& b) { return sum(b(x16)); }),
                         {.backend = "reference"})(cast_tree<bf16>(b));
  CHECK(g.up.weight.size(1) == 32);
}

TEST_CASE("eps is compared, and nothing that is learned") {
  const auto f =
      compile([](const nn::layer_norm<float>& n, const tensor<float, 2>& x) { return n(x); }, {.backend = "reference"});
  auto n = nn::layer_norm<float>::init(3);
  const tensor<float, 2> x{{1, 2, 4}};
  const auto first = f(n, x).to_vector();
  CHECK(f(n, x).to_vector() == first);
  CHECK(f.specialisations() == 1);
  n.eps = 1;
  CHECK(f(n, x).to_vector() != first);
  CHECK(f.specialisations() == 2);
  const auto g = grad([&](const nn::layer_norm<float>& n) { return sum(n(x) * x); })(n);
  CHECK(static_cast<double>(g.eps) == 1);
  check_close(g.bias->to_vector(), std::vector<float>{1, 2, 4}, 1e-6);
}

TEST_CASE("dropout draws another mask at each call") {
  const tensor<float, 2> x = ones<float>(40, 50);
  nn::dropout drop(0.25, make_key(1)), same(0.25, make_key(1)), none;
  const auto a = drop(x).to_vector(), b = drop(x).to_vector();
  CHECK(a != b);
  CHECK(same(x).to_vector() == a);
  CHECK(none(x * 2.f).to_vector() == tensor<float, 2>(x * 2.f).to_vector());
  const auto kept = std::count(a.begin(), a.end(), 1 / 0.75f);
  CHECK(kept + std::count(a.begin(), a.end(), 0.f) == 2000);
  CHECK(std::abs(kept - 1500) < 100);
  const auto f = compile(
      [](const tensor<float, 2>& x, const key& k) {
        nn::dropout drop(0.25, k);
        const tensor<float, 2> first = drop(x);
        return std::pair{first, drop(x)};
      },
      {.backend = "reference"});
  const auto [first, second] = f(x, make_key(1));
  CHECK(first.to_vector() == a);
  CHECK(second.to_vector() == b);
  CHECK(f(x, make_key(2)).first.to_vector() != a);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("dropout in a loop takes keys through the carry, or folds the turn in") {
  const auto folded = [](const tensor<float, 1>& x, const key& k) {
    return fori_loop(
        0, 3,
        [&](const tensor<std::int64_t, 0>& i, const tensor<float, 2>& rows) {
          nn::dropout drop(0.5, fold_in(k, i));
          const tensor<float, 2> row = expand_dims(drop(x), axis<0>);
          return tensor<float, 2>(concat(slice<0>(rows, 1, 3), row, axis<0>));
        },
        zeros<float>(3, 20));
  };
  const auto carried = [](const tensor<float, 1>& x, const key& k) {
    return fori_loop(
               0, 3,
               [&](const tensor<std::int64_t, 0>&, const std::pair<key, tensor<float, 2>>& c) {
                 const auto [now, later] = split(c.first);
                 nn::dropout drop(0.5, now);
                 const tensor<float, 2> row = expand_dims(drop(x), axis<0>);
                 return std::pair{later, tensor<float, 2>(concat(slice<0>(c.second, 1, 3), row, axis<0>))};
               },
               std::pair{k, zeros<float>(3, 20)})
        .second;
  };
  const auto check = [](const auto& f) {
    const tensor<float, 2> rows = f(ones<float>(20), make_key(3));
    CHECK(compile(f, {.backend = "reference"})(ones<float>(20), make_key(3)).to_vector() == rows.to_vector());
    CHECK(rows[0].to_vector() != rows[1].to_vector());
    CHECK(rows[1].to_vector() != rows[2].to_vector());
  };
  check(folded);
  check(carried);
}

TEST_CASE("initialisers have the variances of their schemes, orthogonal ones orthonormal rows or columns") {
  const auto spread = [](const nn::initializer& how, std::int64_t in, std::int64_t out) {
    const auto x = how(make_key(9), std::array{in, out}).to_vector();
    double mean = 0, square = 0;
    for (const float v : x) mean += v / static_cast<double>(x.size());
    for (const float v : x) square += (v - mean) * (v - mean) / static_cast<double>(x.size());
    return square;
  };
  const auto near = [](double got, double want) { CHECK(got == doctest::Approx(want).epsilon(0.05)); };
  near(spread(nn::glorot_uniform(), 100, 60), 2.0 / 160);
  near(spread(nn::glorot_normal(2), 100, 60), 8.0 / 160);
  near(spread(nn::he_uniform(), 100, 60), 2.0 / 100);
  near(spread(nn::he_normal(), 100, 60), 2.0 / 100);
  near(spread(nn::lecun_normal(), 100, 60), 1.0 / 100);
  near(spread(nn::lecun_uniform(), 100, 60), 1.0 / 100);
  near(spread(nn::torch_uniform(), 100, 60), 1.0 / 300);
  near(spread(nn::normal_of(0.3, 5), 100, 60), 0.09);
  near(spread(nn::truncated_of(0.3), 100, 60), 0.09 * 0.774);
  near(spread(nn::uniform_of(2, 3), 100, 60), 1.0 / 12);
  CHECK(nn::constant_of(3)(make_key(1), std::array{2}).to_vector() == std::vector<float>{3, 3});
  for (const auto& [rows, columns] : {std::pair{5, 9}, std::pair{9, 5}, std::pair{7, 7}}) {
    const matrix q = nn::orthogonal(2).draw<double>(make_key(4), std::array{rows, columns}, 1, 1);
    const matrix product = rows <= columns ? matmul(q, transpose(q)) : matmul(transpose(q), q);
    check_close(product.to_vector(), matrix(4.0 * eye<double>(std::min(rows, columns))).to_vector(), 1e-9);
  }
}

TEST_CASE("what layers refuse") {
  const key k = make_key(1);
  const auto says = [](const auto& f, const char* what) {
    try {
      f();
      FAIL_CHECK("nothing was thrown, not ", what);
    } catch (const user_error& e) {
      const std::string text = e.what();
      CHECK_MESSAGE(text.find(what) != std::string::npos, text);
      CHECK_MESSAGE(text.find("layers_test.cpp") != std::string::npos, text);
    }
  };
  says([&] { nn::linear<float>::init(k, 0, 2); }, "[nn::linear] the number of inputs must be 1 or more; it is 0");
  says([&] { nn::linear<float>::init(k, 3, 2)(ones<float>(2, 4)); }, "[nn::linear]");
  const nn::linear<float> narrow{ones<float>(3, 1), ones<float>(4)};
  says([&] { narrow(ones<float>(2, 3)); }, "[nn::linear] the bias is (4,), axis 1 of the result (2, 1) has another");
  says([&] { compile(narrow)(ones<float>(2, 3)); }, "[nn::linear] the bias is (4,), axis 1 of the result (2, 1)");
  auto conv = nn::conv1d<float>::init(k, 1, 1, 1);
  conv.bias = ones<float>(5);
  says([&] { conv(ones<float>(2, 1, 3)); }, "[nn::conv] the bias is (5,), axis 1 of the result (2, 1, 3) has another");
  says([&] { nn::dropout(1, k); }, "[nn::dropout] the rate must be in [0, 1); it is 1");
  says([&] { nn::self_attention<float>::init(k, 9, {.heads = 2}); },
       "2 heads do not divide the width, 9; give heads that do, or .head_width");
  says([&] { nn::self_attention<float>::init(k, 8, {.heads = 4, .key_heads = 3}); },
       "4 heads are no multiple of 3 key heads");
  says([&] { nn::group_norm<float>::init(3, 4); }, "[nn::group_norm] 3 groups do not divide 4 channels");
  const auto batch = nn::batch_norm<float>::init(3);
  says([&] { batch(ones<float>(2, 4), batch.statistics(), nn::training); },
       "x is (2, 4), the layer has 3 channels; they are axis 1 of (batch, channels, …)");
  const std::array norms{batch, batch};
  const auto s = nn::state(norms);
  const nn::pass pass(norms, s, nn::training);
  says([&] { batch(ones<float>(2, 3), pass); }, "[nn::batch_norm] this norm is no part of the model");
  says([&] { norms[0](ones<float>(2, 4), pass); }, "[nn::batch_norm] x is (2, 4), the layer has 3 channels");
  says([&] { nn::pass(batch, s, nn::training); }, "[nn::pass] the state has no statistics of the model's norm \"\"");
  says([&] { nn::pass(std::vector{batch}, s, nn::inference); }, "the state is of 2 norms, the model has 1;");
  auto wrong = s;
  wrong.at("0").mean = ones<float>(1);
  says([&] { norms[0](ones<float>(2, 3), nn::pass(norms, wrong, nn::inference)); },
       "[nn::batch_norm] the statistics are of (1,) and (3,), the layer has 3 channels");
  says([&] { nn::conv2d<float>::init(k, 3, 4, {3, 3, 3}); }, "the window is one number for all 2 axes, or one each");
  says([&] { nn::conv2d<float>::init(k, 3, 4, 3, {.groups = 2}); }, "2 groups do not divide 3 and 4 channels");
  says([&] { nn::mlp<float>::init(k, {3}); }, "there are 1 widths; give two or more");
  says([&] { nn::he_normal(NAN)(k, std::array{2, 2}); }, "the scale must be finite");
}

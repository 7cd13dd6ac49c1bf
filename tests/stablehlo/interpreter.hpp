// tests/stablehlo/interpreter.hpp: StableHLO's operations on doubles and 64-bit integers, by their specification. What the
// specification leaves undefined is an error, and so is a result whose type is not the stated one.
#pragma once

#include <sinter/ir/literal_array.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "module.hpp"

namespace hlo {

using sinter::dtype;
using sinter::is_bool;
using sinter::is_float;
using sinter::is_unsigned;
using array = sinter::ir::literal_array;
using extents_t = std::vector<std::int64_t>;

inline extents_t extents_of(const array& x) { return {x.extents.begin(), x.extents.end()}; }
inline std::int64_t count(const extents_t& e) {
  return std::accumulate(e.begin(), e.end(), std::int64_t{1}, std::multiplies<>());
}
inline array made(dtype t, const extents_t& extents) {
  array x{t, {extents.begin(), extents.end()}, {}, {}};
  (is_float(t) ? x.f.resize(static_cast<std::size_t>(count(extents)))
               : x.i.resize(static_cast<std::size_t>(count(extents))));
  return x;
}
inline double rounded(dtype t, double x) {
  switch (t) {
    case dtype::f64:
      return x;
    case dtype::f32:
      return static_cast<double>(static_cast<float>(x));
    case dtype::f16:
      return static_cast<double>(static_cast<float>(sinter::f16(static_cast<float>(x))));
    case dtype::bf16:
      return static_cast<double>(static_cast<float>(sinter::bf16(static_cast<float>(x))));
    case dtype::f8_e4m3:
      return static_cast<double>(static_cast<float>(sinter::f8_e4m3(static_cast<float>(x))));
    default:
      return static_cast<double>(static_cast<float>(sinter::f8_e5m2(static_cast<float>(x))));
  }
}
/// The number that the low bits are.
inline std::int64_t wrapped(dtype t, std::int64_t x) {
  return sinter::visit_dtype(t, [&]<class T>(std::type_identity<T>) -> std::int64_t {
    if constexpr (std::is_same_v<T, bool>) return x & 1;
    else if constexpr (std::is_integral_v<T>) return static_cast<std::int64_t>(static_cast<T>(x));
    else bad("a float has no bits here");
  });
}
inline int width(dtype t) { return is_bool(t) ? 1 : static_cast<int>(8 * sinter::size_of(t)); }
inline std::uint64_t unsigned_bits(dtype t, std::int64_t x) {
  return width(t) == 64 ? static_cast<std::uint64_t>(x)
                        : static_cast<std::uint64_t>(x) & ((std::uint64_t{1} << width(t)) - 1);
}

/// An index and its place, one after the other in row-major order.
template <class F>
void each(const extents_t& extents, F&& f) {
  const std::int64_t n = count(extents);
  extents_t at(extents.size(), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    f(at, static_cast<std::size_t>(i));
    for (std::size_t d = extents.size(); d-- > 0;) {
      if (++at[d] < extents[d]) break;
      at[d] = 0;
    }
  }
}
inline std::size_t place(const array& x, const extents_t& at) {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (at[d] < 0 || at[d] >= x.extents[d]) bad("an index out of range");
    out = out * x.extents[d] + at[d];
  }
  return static_cast<std::size_t>(out);
}
inline void copy_element(array& to, std::size_t i, const array& from, std::size_t j) {
  if (is_float(to.type)) to.f[i] = from.f[j];
  else to.i[i] = from.i[j];
}
inline array element(const array& x, std::size_t i) {
  array out = made(x.type, {});
  copy_element(out, 0, x, i);
  return out;
}
inline void require(bool holds, const operation& o, const char* what) {
  if (!holds) bad(o.name + ": " + what);
}

/// dense<…>: one literal, or the bytes of all elements.
inline array constant_of(const operation& o) {
  const std::string& text = o.attributes.at("value");
  require(text.starts_with("dense<"), o, "dense expected");
  const std::size_t end = text.rfind("> : ");
  const std::string inside = text.substr(6, end - 6);
  std::string type_text = text.substr(end + 4);
  const tensor_type stated = reader(type_text).read_type();
  require(stated == o.out_types[0], o, "another type than the result's");
  array out = made(stated.type, stated.extents);
  const std::size_t n = static_cast<std::size_t>(count(stated.extents));
  require((n == 0) == inside.empty(), o, "elements of an empty tensor");
  if (inside.starts_with("\"0x")) {
    const std::size_t size = sinter::size_of(stated.type);
    require(!is_bool(stated.type) && inside.size() == 4 + 2 * n * size, o, "bytes of another count");
    sinter::visit_dtype(stated.type, [&]<class T>(std::type_identity<T>) {
      for (std::size_t i = 0; i < n; ++i) {
        unsigned char bytes[8];
        for (std::size_t k = 0; k < size; ++k)
          bytes[k] = static_cast<unsigned char>(std::stoul(inside.substr(3 + 2 * (i * size + k), 2), nullptr, 16));
        T v{};
        std::memcpy(static_cast<void*>(&v), bytes, size);
        if constexpr (is_float(sinter::dtype_of<T>)) out.f[i] = static_cast<double>(v);
        else out.i[i] = static_cast<std::int64_t>(v);
      }
    });
    return out;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (is_bool(stated.type)) {
      require(inside == "true" || inside == "false", o, "a flag expected");
      out.i[i] = inside == "true";
    } else if (!is_float(stated.type)) {
      out.i[i] = inside[0] == '-' ? std::stoll(inside) : static_cast<std::int64_t>(std::stoull(inside));
      require(wrapped(stated.type, out.i[i]) == out.i[i], o, "a literal out of range");
    } else if (inside.starts_with("0x")) {
      require(inside.size() == 2 + 2 * sinter::size_of(stated.type), o, "bits of another width");
      const std::uint64_t bits = std::stoull(inside, nullptr, 16);
      sinter::visit_dtype(stated.type, [&]<class T>(std::type_identity<T>) {
        T v{};
        std::memcpy(static_cast<void*>(&v), &bits, sizeof v);
        out.f[i] = static_cast<double>(v);
      });
    } else {
      require(inside.find('.') != std::string::npos, o, "a floating literal has a point");
      out.f[i] = rounded(stated.type, std::stod(inside));
    }
  }
  return out;
}

class interpreter {
 public:
  std::vector<array> call(const operation& f, const std::vector<array>& in) { return run(f.regions[0], in, {}); }
  std::map<std::string, int> seen;  ///< operations by name

 private:
  using scope = std::map<std::string, array>;

  static std::size_t at_(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::vector<array> run(const region& r, const std::vector<array>& in, const std::vector<const scope*>& around) {
    scope own;
    if (in.size() != r.names.size()) bad("a region takes another number of values");
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (tensor_type{in[k].type, extents_of(in[k])} != r.types[k]) bad("a region's parameter has another type");
      own.emplace(r.names[k], in[k]);
    }
    std::vector<const scope*> scopes = around;
    scopes.push_back(&own);
    for (const operation& o : r.body) {
      std::vector<array> x;
      for (std::size_t k = 0; k < o.in.size(); ++k) {
        const array* found = nullptr;
        for (const scope* s : scopes)
          if (const auto v = s->find(o.in[k]); v != s->end()) found = &v->second;
        if (!found) bad(o.name + ": %" + o.in[k] + " is not visible");
        if (tensor_type{found->type, extents_of(*found)} != o.in_types[k])
          bad(o.name + ": an operand has another type");
        x.push_back(*found);
      }
      ++seen[o.name];
      if (o.name == "stablehlo.return" || o.name == "func.return") return x;
      std::vector<array> y = apply(o, x, scopes);
      require(y.size() == o.out.size(), o, "another number of results");
      for (std::size_t k = 0; k < y.size(); ++k) {
        if (tensor_type{y[k].type, extents_of(y[k])} != o.out_types[k]) bad(o.name + ": the result has another type");
        if (is_float(y[k].type))
          for (double& v : y[k].f) v = rounded(y[k].type, v);
        if (!own.emplace(o.out[k], std::move(y[k])).second) bad(o.name + ": a value is defined twice");
      }
    }
    bad("a region without an end");
  }
  array combine(const region& r, const array& a, const array& b, const std::vector<const scope*>& around) {
    return run(r, {a, b}, around).at(0);
  }

  std::vector<array> apply(const operation& o, const std::vector<array>& x, const std::vector<const scope*>& around) {
    const std::string name = o.name.starts_with("stablehlo.") ? o.name.substr(10) : "";
    if (name == "while") return turns(o, x, around);
    if (name == "if") {
      require(x.size() == 1 && x[0].type == dtype::b8 && x[0].extents.empty(), o, "a flag expected");
      return run(o.regions.at(x[0].i[0] ? 0 : 1), {}, around);
    }
    if (name == "sort") return sorted(o, x, around);
    if (name == "constant") return {constant_of(o)};
    if (name == "reduce") return {reduce(o, x, around)};
    if (name == "reduce_window") return {reduce_window(o, x, around)};
    if (name == "scatter") return {scatter(o, x, around)};
    if (name == "dot_general") return {dot(o, x)};
    if (name == "convolution") return {convolution(o, x)};
    if (name == "gather") return {gather(o, x)};
    if (name == "complex" || name == "real" || name == "imag") return {parts(name, o, x)};
    if (name == "fft") return {transformed(o, x.at(0))};
    if (name == "cholesky") return {cholesky(o, x.at(0))};
    if (name == "triangular_solve") return {solved(o, x)};
    if (array out; moved(name, o, x, out)) return {out};
    return {elementwise(name, o, x)};
  }

  /// Complex numbers have a last axis of both parts.
  static array parts(const std::string& name, const operation& o, const std::vector<array>& x) {
    extents_t e = extents_of(x.at(0));
    const std::size_t n = x[0].f.size();
    if (name == "complex") {
      require(extents_of(x.at(1)) == e && x[1].type == x[0].type, o, "parts of one type");
      e.push_back(2);
      array out = made(x[0].type, e);
      for (std::size_t k = 0; k < n; ++k) out.f[2 * k] = x[0].f[k], out.f[2 * k + 1] = x[1].f[k];
      return out;
    }
    require(e.back() == 2, o, "complex numbers expected");
    e.pop_back();
    array out = made(x[0].type, e);
    for (std::size_t k = 0; k < n / 2; ++k) out.f[k] = x[0].f[2 * k + (name == "imag")];
    return out;
  }
  static array transformed(const operation& o, const array& x) {
    const auto length = numbers_of(o.attributes.at("fft_length"));
    const std::int64_t n = x.extents[x.extents.size() - 2];
    require(length.size() == 1 && length[0] == n, o, "the length of the last axis");
    const bool inverse = o.attributes.at("fft_type") == "#stablehlo<fft_type IFFT>";
    require(inverse || o.attributes.at("fft_type") == "#stablehlo<fft_type FFT>", o, "a type expected");
    array out = made(x.type, extents_of(x));
    for (std::size_t row = 0; row < x.f.size(); row += at_(2 * n))
      for (std::int64_t k = 0; k < n; ++k) {
        double re = 0, im = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const double angle =
              (inverse ? 2 : -2) * 3.14159265358979323846 * static_cast<double>(j * k % n) / static_cast<double>(n);
          const double p = x.f[row + at_(2 * j)], q = x.f[row + at_(2 * j + 1)];
          re += p * std::cos(angle) - q * std::sin(angle);
          im += p * std::sin(angle) + q * std::cos(angle);
        }
        const double by = inverse ? 1 / static_cast<double>(n) : 1;
        out.f[row + at_(2 * k)] = re * by;
        out.f[row + at_(2 * k + 1)] = im * by;
      }
    return out;
  }
  /// What is above the diagonal is not defined, here a number that nothing else gives.
  static array cholesky(const operation& o, const array& a) {
    require(o.attributes.at("lower") == "true", o, "the lower factor");
    const std::size_t n = at_(a.extents.back());
    array l = made(a.type, extents_of(a));
    for (double& v : l.f) v = 12345;
    for (std::size_t m = 0; m < a.f.size(); m += n * n)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j <= i; ++j) {
          double sum = a.f[m + i * n + j];
          for (std::size_t k = 0; k < j; ++k) sum -= l.f[m + i * n + k] * l.f[m + j * n + k];
          require(i != j || sum > 0, o, "a positive definite matrix, as others are not defined");
          l.f[m + i * n + j] = i == j ? std::sqrt(sum) : sum / l.f[m + j * n + j];
        }
    return l;
  }
  static array solved(const operation& o, const std::vector<array>& x) {
    require(o.attributes.at("left_side") == "true", o, "the matrix on the left");
    require(o.attributes.at("transpose_a") == "#stablehlo<transpose NO_TRANSPOSE>", o, "no transposition");
    const bool lower = o.attributes.at("lower") == "true", unit = o.attributes.at("unit_diagonal") == "true";
    const array& a = x.at(0);
    array y = x.at(1);
    const std::size_t n = at_(a.extents.back()), columns = at_(y.extents.back());
    require(a.extents[a.extents.size() - 2] == a.extents.back() && a.type == y.type, o, "a square matrix of one type");
    for (std::size_t m = 0; m * n * n < a.f.size(); ++m)
      for (std::size_t c = 0; c < columns; ++c)
        for (std::size_t step = 0; step < n; ++step) {
          const std::size_t i = lower ? step : n - 1 - step;
          double& v = y.f[(m * n + i) * columns + c];
          for (std::size_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k)
            v -= a.f[(m * n + i) * n + k] * y.f[(m * n + k) * columns + c];
          if (!unit) v /= a.f[(m * n + i) * n + i];
        }
    return y;
  }

  std::vector<array> turns(const operation& o, std::vector<array> state, const std::vector<const scope*>& around) {
    for (int turn = 0; run(o.regions.at(0), state, around).at(0).i.at(0) != 0; ++turn) {
      if (turn > 100000) bad("a loop without an end");
      state = run(o.regions.at(1), state, around);
    }
    return state;
  }

  std::vector<array> sorted(const operation& o, const std::vector<array>& x, const std::vector<const scope*>& around) {
    const auto d = at_(numbers_of(o.attributes.at("dimension"))[0]);
    require(o.attributes.at("is_stable") == "true", o, "stable expected");
    extents_t others = extents_of(x[0]);
    const std::int64_t n = others[d];
    others[d] = 1;
    std::vector<array> out = x;
    each(others, [&](extents_t at, std::size_t) {
      std::vector<std::size_t> from;
      for (at[d] = 0; at[d] < n; ++at[d]) from.push_back(place(x[0], at));
      std::vector<std::size_t> order = from;
      std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
        std::vector<array> pair;
        for (const array& a : x) {
          pair.push_back(element(a, i));
          pair.push_back(element(a, j));
        }
        return run(o.regions.at(0), pair, around).at(0).i.at(0) != 0;
      });
      for (std::size_t k = 0; k < order.size(); ++k)
        for (std::size_t a = 0; a < x.size(); ++a) copy_element(out[a], from[k], x[a], order[k]);
    });
    return out;
  }

  array reduce(const operation& o, const std::vector<array>& x, const std::vector<const scope*>& around) {
    const auto over = numbers_of(o.attributes.at("dimensions"));
    extents_t to;
    for (std::size_t d = 0; d < x[0].extents.size(); ++d)
      if (std::find(over.begin(), over.end(), static_cast<std::int64_t>(d)) == over.end())
        to.push_back(x[0].extents[d]);
    array out = made(x[0].type, to);
    each(to, [&](const extents_t&, std::size_t i) { copy_element(out, i, x[1], 0); });
    each(extents_of(x[0]), [&](const extents_t& at, std::size_t i) {
      extents_t kept;
      for (std::size_t d = 0; d < at.size(); ++d)
        if (std::find(over.begin(), over.end(), static_cast<std::int64_t>(d)) == over.end()) kept.push_back(at[d]);
      const std::size_t k = place(out, kept);
      copy_element(out, k, combine(o.regions.at(0), element(out, k), element(x[0], i), around), 0);
    });
    return out;
  }

  array reduce_window(const operation& o, const std::vector<array>& x, const std::vector<const scope*>& around) {
    const auto list = [&](const char* name) { return numbers_of(o.attributes.at(name)); };
    const auto taps = list("window_dimensions"), strides = list("window_strides"), spread = list("window_dilations"),
               pads = list("padding"), base = list("base_dilations");
    extents_t to;
    for (std::size_t d = 0; d < taps.size(); ++d) {
      require(base[d] == 1, o, "no base dilation here");
      const std::int64_t whole = x[0].extents[d] + pads[2 * d] + pads[2 * d + 1], reach = (taps[d] - 1) * spread[d] + 1;
      to.push_back(whole < reach ? 0 : (whole - reach) / strides[d] + 1);
    }
    array out = made(x[0].type, to);
    each(to, [&](const extents_t& at, std::size_t i) {
      copy_element(out, i, x[1], 0);
      each(taps, [&](const extents_t& tap, std::size_t) {
        extents_t from;
        bool inside = true;
        for (std::size_t d = 0; d < at.size(); ++d) {
          from.push_back(at[d] * strides[d] + tap[d] * spread[d] - pads[2 * d]);
          inside = inside && from[d] >= 0 && from[d] < x[0].extents[d];
        }
        const array v = inside ? element(x[0], place(x[0], from)) : x[1];
        copy_element(out, i, combine(o.regions.at(0), element(out, i), v, around), 0);
      });
    });
    return out;
  }

  static double product_of(const array& a, std::size_t i, const array& b, std::size_t j) { return a.f[i] * b.f[j]; }
  static std::int64_t wrapping_product(const array& a, std::size_t i, const array& b, std::size_t j) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a.i[i]) * static_cast<std::uint64_t>(b.i[j]));
  }
  static void add_product(array& out, std::size_t k, const array& a, std::size_t i, const array& b, std::size_t j) {
    if (is_float(out.type)) out.f[k] += product_of(a, i, b, j);
    else
      out.i[k] = wrapped(out.type, static_cast<std::int64_t>(static_cast<std::uint64_t>(out.i[k]) +
                                                             static_cast<std::uint64_t>(wrapping_product(a, i, b, j))));
  }

  array dot(const operation& o, const std::vector<array>& x) {
    const std::string& how = o.attributes.at("dot_dimension_numbers");
    const auto lb = field(how, "lhs_batching_dimensions"), rb = field(how, "rhs_batching_dimensions"),
               lc = field(how, "lhs_contracting_dimensions"), rc = field(how, "rhs_contracting_dimensions");
    require(lb.size() == rb.size() && lc.size() == rc.size(), o, "axes in pairs");
    require(x[0].type == x[1].type, o, "operands of one type");
    extents_t to, inner;
    const auto free = [](const array& a, const extents_t& b, const extents_t& c) {
      extents_t out;
      for (std::int64_t d = 0; d < static_cast<std::int64_t>(a.extents.size()); ++d)
        if (std::find(b.begin(), b.end(), d) == b.end() && std::find(c.begin(), c.end(), d) == c.end())
          out.push_back(d);
      return out;
    };
    const extents_t lf = free(x[0], lb, lc), rf = free(x[1], rb, rc);
    for (std::size_t k = 0; k < lb.size(); ++k) {
      require(x[0].extents[at_(lb[k])] == x[1].extents[at_(rb[k])], o, "batches of one extent");
      to.push_back(x[0].extents[at_(lb[k])]);
    }
    for (const auto d : lf) to.push_back(x[0].extents[at_(d)]);
    for (const auto d : rf) to.push_back(x[1].extents[at_(d)]);
    for (std::size_t k = 0; k < lc.size(); ++k) {
      require(x[0].extents[at_(lc[k])] == x[1].extents[at_(rc[k])], o, "contracted axes of one extent");
      inner.push_back(x[0].extents[at_(lc[k])]);
    }
    array out = made(o.out_types[0].type, to);
    each(to, [&](const extents_t& at, std::size_t i) {
      extents_t p(x[0].extents.size()), q(x[1].extents.size());
      for (std::size_t k = 0; k < lb.size(); ++k) p[at_(lb[k])] = q[at_(rb[k])] = at[k];
      for (std::size_t k = 0; k < lf.size(); ++k) p[at_(lf[k])] = at[lb.size() + k];
      for (std::size_t k = 0; k < rf.size(); ++k) q[at_(rf[k])] = at[lb.size() + lf.size() + k];
      each(inner, [&](const extents_t& in, std::size_t) {
        for (std::size_t k = 0; k < in.size(); ++k) p[at_(lc[k])] = q[at_(rc[k])] = in[k];
        add_product(out, i, x[0], place(x[0], p), x[1], place(x[1], q));
      });
    });
    return out;
  }

  /// "[b, f, 0]" as the axis of each name.
  static std::map<std::string, std::size_t> layout(const std::string& text) {
    std::map<std::string, std::size_t> out;
    std::string name;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c))) name += c;
      else if (!name.empty()) out.emplace(std::exchange(name, ""), out.size());
    }
    return out;
  }
  array convolution(const operation& o, const std::vector<array>& x) {
    const std::string& how = o.attributes.at("dimension_numbers");
    const auto start = how.find('['), cross = how.find("]x["), arrow = how.find("]->[");
    auto image = layout(how.substr(start, cross + 1 - start)),
         kernel = layout(how.substr(cross + 2, arrow + 1 - cross - 2)), result = layout(how.substr(arrow + 3));
    const auto list = [&](const char* name) { return numbers_of(o.attributes.at(name)); };
    const auto strides = list("window_strides"), spread = list("rhs_dilation"), pads = list("padding");
    require(list("feature_group_count")[0] == 1 && list("batch_group_count")[0] == 1, o, "no groups here");
    require(list("lhs_dilation") == extents_t(strides.size(), 1), o, "no base dilation here");
    require(x[0].extents[image["f"]] == x[1].extents[kernel["i"]], o, "channels of one extent");
    extents_t to(strides.size() + 2), taps;
    to[result["b"]] = x[0].extents[image["b"]];
    to[result["f"]] = x[1].extents[kernel["o"]];
    for (std::size_t k = 0; k < strides.size(); ++k) {
      const std::string s = std::to_string(k);
      taps.push_back(x[1].extents[kernel[s]]);
      const std::int64_t whole = x[0].extents[image[s]] + pads[2 * k] + pads[2 * k + 1],
                         reach = (taps[k] - 1) * spread[k] + 1;
      to[result[s]] = whole < reach ? 0 : (whole - reach) / strides[k] + 1;
    }
    taps.push_back(x[0].extents[image["f"]]);
    array out = made(o.out_types[0].type, to);
    each(to, [&](const extents_t& at, std::size_t i) {
      each(taps, [&](const extents_t& tap, std::size_t) {
        extents_t p(at.size()), q(at.size());
        p[image["b"]] = at[result["b"]];
        p[image["f"]] = q[kernel["i"]] = tap.back();
        q[kernel["o"]] = at[result["f"]];
        for (std::size_t k = 0; k < strides.size(); ++k) {
          const std::string s = std::to_string(k);
          q[kernel[s]] = tap[k];
          p[image[s]] = at[result[s]] * strides[k] + tap[k] * spread[k] - pads[2 * k];
          if (p[image[s]] < 0 || p[image[s]] >= x[0].extents[image[s]]) return;
        }
        add_product(out, i, x[0], place(x[0], p), x[1], place(x[1], q));
      });
    });
    return out;
  }

  /// The parts of an index that come from start_indices, and those that come from the window.
  struct indexing {
    extents_t window, collapsed, batching, index_batching, map;
    std::int64_t vector = 0;
    /// The axes of an operand that a window has.
    extents_t window_axes(std::size_t rank) const {
      extents_t out;
      for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d)
        if (std::find(collapsed.begin(), collapsed.end(), d) == collapsed.end() &&
            std::find(batching.begin(), batching.end(), d) == batching.end())
          out.push_back(d);
      return out;
    }
    /// The start of the window that position `at` of the result, or of the updates, belongs to.
    extents_t start(const array& index, const extents_t& at, std::size_t rank) const {
      extents_t outer, out(rank, 0);
      for (std::size_t d = 0; d < at.size(); ++d)
        if (std::find(window.begin(), window.end(), static_cast<std::int64_t>(d)) == window.end())
          outer.push_back(at[d]);
      for (std::size_t k = 0; k < map.size(); ++k) {
        extents_t where = outer;
        if (static_cast<std::size_t>(vector) < index.extents.size())
          where.insert(where.begin() + vector, static_cast<std::int64_t>(k));
        out[static_cast<std::size_t>(map[k])] = index.i[place(index, where)];
      }
      for (std::size_t k = 0; k < batching.size(); ++k) {
        const std::int64_t from = index_batching[k] - (index_batching[k] > vector);
        out[static_cast<std::size_t>(batching[k])] = outer[static_cast<std::size_t>(from)];
      }
      return out;
    }
  };

  array gather(const operation& o, const std::vector<array>& x) {
    const std::string& how = o.attributes.at("dimension_numbers");
    const indexing by{field(how, "offset_dims"),           field(how, "collapsed_slice_dims"),
                      field(how, "operand_batching_dims"), field(how, "start_indices_batching_dims"),
                      field(how, "start_index_map"),       field(how, "index_vector_dim").at(0)};
    const auto sizes = numbers_of(o.attributes.at("slice_sizes"));
    const std::size_t rank = x[0].extents.size();
    require(sizes.size() == rank, o, "a size of each axis");
    const extents_t axes = by.window_axes(rank);
    require(axes.size() == by.window.size(), o, "offsets of the window's axes");
    extents_t to, outer = extents_of(x[1]);
    if (at_(by.vector) < outer.size()) outer.erase(outer.begin() + by.vector);
    for (std::size_t d = 0, a = 0, w = 0; d < outer.size() + axes.size(); ++d) {
      const bool offset =
          std::find(by.window.begin(), by.window.end(), static_cast<std::int64_t>(d)) != by.window.end();
      to.push_back(offset ? sizes[at_(axes[w++])] : outer[a++]);
    }
    for (std::size_t d = 0; d < rank; ++d) require(sizes[d] >= 0 && sizes[d] <= x[0].extents[d], o, "slices within");
    array out = made(x[0].type, to);
    each(to, [&](const extents_t& at, std::size_t i) {
      extents_t from = by.start(x[1], at, rank);
      for (const auto d : by.map)
        from[at_(d)] = std::clamp<std::int64_t>(from[at_(d)], 0, x[0].extents[at_(d)] - sizes[at_(d)]);
      for (std::size_t w = 0; w < axes.size(); ++w) from[at_(axes[w])] += at[at_(by.window[w])];
      copy_element(out, i, x[0], place(x[0], from));
    });
    return out;
  }
  /// From the last update to the first: the order is not specified.
  array scatter(const operation& o, const std::vector<array>& x, const std::vector<const scope*>& around) {
    const std::string& how = o.attributes.at("scatter_dimension_numbers");
    const indexing by{field(how, "update_window_dims"),           field(how, "inserted_window_dims"),
                      field(how, "input_batching_dims"),          field(how, "scatter_indices_batching_dims"),
                      field(how, "scatter_dims_to_operand_dims"), field(how, "index_vector_dim").at(0)};
    const extents_t axes = by.window_axes(x[0].extents.size());
    require(axes.size() == by.window.size(), o, "a window of the updates");
    array out = x[0];
    std::vector<std::pair<std::size_t, std::size_t>> updates;
    each(extents_of(x[2]), [&](const extents_t& at, std::size_t i) {
      extents_t to = by.start(x[1], at, x[0].extents.size());
      for (std::size_t w = 0; w < axes.size(); ++w) to[at_(axes[w])] += at[at_(by.window[w])];
      for (std::size_t d = 0; d < to.size(); ++d)
        if (to[d] < 0 || to[d] >= x[0].extents[d]) return;
      updates.emplace_back(place(out, to), i);
    });
    for (std::size_t k = updates.size(); k-- > 0;) {
      const array next =
          combine(o.regions.at(0), element(out, updates[k].first), element(x[2], updates[k].second), around);
      copy_element(out, updates[k].first, next, 0);
    }
    return out;
  }

  /// What moves elements; false for other operations.
  bool moved(const std::string& name, const operation& o, const std::vector<array>& x, array& out) {
    const auto list = [&](const char* key) { return numbers_of(o.attributes.at(key)); };
    const tensor_type& t = o.out_types.at(0);
    const auto from = [&](const array& a, const extents_t& to, auto&& where) {
      out = made(a.type, to);
      each(to, [&](const extents_t& at, std::size_t i) { copy_element(out, i, a, place(a, where(at))); });
    };
    if (name == "iota") {
      const auto d = at_(list("iota_dimension")[0]);
      out = made(t.type, t.extents);
      each(t.extents, [&](const extents_t& at, std::size_t i) {
        if (is_float(t.type)) out.f[i] = static_cast<double>(at[d]);
        else out.i[i] = wrapped(t.type, at[d]);
      });
    } else if (name == "reshape") {
      require(count(t.extents) == count(extents_of(x[0])), o, "as many elements");
      out = x[0];
      out.extents.assign(t.extents.begin(), t.extents.end());
    } else if (name == "transpose") {
      const auto perm = list("permutation");
      extents_t to;
      for (const auto d : perm) to.push_back(x[0].extents[at_(d)]);
      from(x[0], to, [&](const extents_t& at) {
        extents_t p(at.size());
        for (std::size_t d = 0; d < at.size(); ++d) p[at_(perm[d])] = at[d];
        return p;
      });
    } else if (name == "broadcast_in_dim") {
      const auto axes = list("broadcast_dimensions");
      require(axes.size() == x[0].extents.size(), o, "an axis of each");
      for (std::size_t d = 0; d < axes.size(); ++d)
        require(x[0].extents[d] == 1 || x[0].extents[d] == t.extents[at_(axes[d])], o, "extents of 1 alone grow");
      from(x[0], t.extents, [&](const extents_t& at) {
        extents_t p;
        for (std::size_t d = 0; d < axes.size(); ++d) p.push_back(x[0].extents[d] == 1 ? 0 : at[at_(axes[d])]);
        return p;
      });
    } else if (name == "slice") {
      const auto start = list("start_indices"), limit = list("limit_indices"), step = list("strides");
      extents_t to;
      for (std::size_t d = 0; d < start.size(); ++d) {
        require(start[d] >= 0 && start[d] <= limit[d] && limit[d] <= x[0].extents[d] && step[d] > 0, o,
                "a range within");
        to.push_back((limit[d] - start[d] + step[d] - 1) / step[d]);
      }
      from(x[0], to, [&](extents_t at) {
        for (std::size_t d = 0; d < at.size(); ++d) at[d] = start[d] + at[d] * step[d];
        return at;
      });
    } else if (name == "reverse") {
      const auto axes = list("dimensions");
      from(x[0], extents_of(x[0]), [&](extents_t at) {
        for (const auto d : axes) at[at_(d)] = x[0].extents[at_(d)] - 1 - at[at_(d)];
        return at;
      });
    } else if (name == "pad") {
      const auto low = list("edge_padding_low"), high = list("edge_padding_high"), inner = list("interior_padding");
      require(inner == extents_t(low.size(), 0) && x[1].extents.empty(), o, "padding around alone");
      extents_t to;
      for (std::size_t d = 0; d < low.size(); ++d) to.push_back(x[0].extents[d] + low[d] + high[d]);
      out = made(x[0].type, to);
      each(to, [&](extents_t at, std::size_t i) {
        bool inside = true;
        for (std::size_t d = 0; d < at.size(); ++d)
          inside = (at[d] -= low[d]) >= 0 && at[d] < x[0].extents[d] && inside;
        copy_element(out, i, inside ? x[0] : x[1], inside ? place(x[0], at) : 0);
      });
    } else if (name == "concatenate") {
      const auto d = at_(list("dimension")[0]);
      extents_t to = extents_of(x[0]);
      to[d] = 0;
      for (const array& a : x) to[d] += a.extents[d];
      out = made(x[0].type, to);
      each(to, [&](extents_t at, std::size_t i) {
        std::size_t k = 0;
        for (; at[d] >= x[k].extents[d]; ++k) at[d] -= x[k].extents[d];
        copy_element(out, i, x[k], place(x[k], at));
      });
    } else if (name == "dynamic_slice" || name == "dynamic_update_slice") {
      const bool update = name == "dynamic_update_slice";
      const extents_t sizes = update ? extents_of(x[1]) : extents_t(list("slice_sizes"));
      extents_t start;
      for (std::size_t d = 0; d < sizes.size(); ++d)
        start.push_back(std::clamp<std::int64_t>(x.at(d + (update ? 2 : 1)).i.at(0), 0, x[0].extents[d] - sizes[d]));
      const auto shifted = [&](extents_t at) {
        for (std::size_t d = 0; d < at.size(); ++d) at[d] += start[d];
        return at;
      };
      if (!update) return from(x[0], sizes, shifted), true;
      out = x[0];
      each(sizes, [&](const extents_t& at, std::size_t i) { copy_element(out, place(out, shifted(at)), x[1], i); });
    } else {
      return false;
    }
    return true;
  }

  array elementwise(const std::string& name, const operation& o, const std::vector<array>& x) {
    const bool chooses = name == "select";
    const array& first = x.at(chooses ? 1 : 0);
    for (const array& a : x) require(extents_of(a) == extents_of(first), o, "operands of one shape");
    const bool turns_type = name == "convert" || name == "bitcast_convert" || name == "is_finite" || name == "compare";
    array out = made(turns_type ? o.out_types.at(0).type : first.type, extents_of(first));
    for (std::size_t k = chooses ? 1 : 0; k < x.size(); ++k)
      require(x[k].type == first.type, o, "operands of one type");
    const auto n = static_cast<std::size_t>(count(extents_of(first)));
    for (std::size_t i = 0; i < n; ++i) {
      if (chooses) copy_element(out, i, x[0].i[i] ? x[1] : x[2], i);
      else if (name == "convert") converted(o, out, first, i);
      else if (name == "bitcast_convert") cast_bits(o, out, first, i);
      else if (name == "is_finite") out.i[i] = std::isfinite(first.f.at(i));
      else if (name == "compare") out.i[i] = compared(o, x[0], x[1], i);
      else if (is_float(first.type)) out.f[i] = of_floats(name, first.f[i], x.size() > 1 ? x[1].f[i] : 0);
      else out.i[i] = wrapped(first.type, of_integers(name, o, first.type, first.i[i], x.size() > 1 ? x[1].i[i] : 0));
    }
    return out;
  }
  static void converted(const operation& o, array& out, const array& x, std::size_t i) {
    if (is_float(out.type)) {
      out.f[i] = is_float(x.type)         ? x.f[i]
                 : x.type == dtype::u64   ? static_cast<double>(static_cast<std::uint64_t>(x.i[i]))
                 : out.type == dtype::f32 ? static_cast<double>(static_cast<float>(x.i[i]))
                                          : static_cast<double>(x.i[i]);
      if (x.type == dtype::u64 && out.type == dtype::f32)
        out.f[i] = static_cast<double>(static_cast<float>(static_cast<std::uint64_t>(x.i[i])));
    } else if (!is_float(x.type)) {
      out.i[i] = is_bool(out.type) ? x.i[i] != 0 : wrapped(out.type, x.i[i]);
    } else {
      const int bits = width(out.type) - !is_unsigned(out.type);
      require(!is_bool(out.type) && x.f[i] < std::ldexp(1.0, bits) &&
                  x.f[i] > (is_unsigned(out.type) ? -1.0 : -std::ldexp(1.0, bits) - 1),
              o, "a number out of range, which is not defined");
      out.i[i] = out.type == dtype::u64 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(x.f[i]))
                                        : static_cast<std::int64_t>(x.f[i]);
    }
  }
  static void cast_bits(const operation& o, array& out, const array& x, std::size_t i) {
    require(sinter::size_of(out.type) == sinter::size_of(x.type), o, "types of one size");
    std::uint64_t bits = 0;
    sinter::visit_dtype(x.type, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_arithmetic_v<T>) {
        const T v = is_float(x.type) ? static_cast<T>(x.f.empty() ? 0 : x.f[i]) : static_cast<T>(x.i[i]);
        std::memcpy(&bits, &v, sizeof v);
      }
    });
    sinter::visit_dtype(out.type, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_arithmetic_v<T>) {
        T v{};
        std::memcpy(&v, &bits, sizeof v);
        if constexpr (std::is_floating_point_v<T>) out.f[i] = static_cast<double>(v);
        else out.i[i] = static_cast<std::int64_t>(v);
      }
    });
  }
  template <class T>
  static bool holds(const std::string& how, T a, T b) {
    if (how == "EQ") return a == b;
    if (how == "NE") return a != b;
    if (how == "LT") return a < b;
    if (how == "LE") return a <= b;
    if (how == "GT") return a > b;
    if (how == "GE") return a >= b;
    bad("comparison " + how);
  }
  static bool compared(const operation& o, const array& a, const array& b, std::size_t i) {
    const std::string& text = o.attributes.at("comparison_direction");
    const std::string how = text.substr(text.size() - 3, 2);
    require(text == "#stablehlo<comparison_direction " + how + ">", o, "a direction expected");
    if (is_float(a.type)) return holds(how, a.f[i], b.f[i]);
    if (is_unsigned(a.type)) return holds(how, static_cast<std::uint64_t>(a.i[i]), static_cast<std::uint64_t>(b.i[i]));
    return holds(how, a.i[i], b.i[i]);
  }

  static double of_floats(const std::string& name, double a, double b) {
    using function = double (*)(double, double);
    static const std::map<std::string, function> all{
        {"add", [](double p, double q) { return p + q; }},
        {"subtract", [](double p, double q) { return p - q; }},
        {"multiply", [](double p, double q) { return p * q; }},
        {"divide", [](double p, double q) { return p / q; }},
        {"remainder", [](double p, double q) { return std::fmod(p, q); }},
        {"power", [](double p, double q) { return std::pow(p, q); }},
        {"maximum", [](double p, double q) { return p != p   ? p
                                                    : q != q ? q
                                                    : p > q  ? p
                                                             : q; }},
        {"minimum", [](double p, double q) { return p != p   ? p
                                                    : q != q ? q
                                                    : p < q  ? p
                                                             : q; }},
        {"atan2", [](double p, double q) { return std::atan2(p, q); }},
        {"negate", [](double p, double) { return -p; }},
        {"abs", [](double p, double) { return std::fabs(p); }},
        {"sign", [](double p, double) { return p > 0   ? 1.0
                                               : p < 0 ? -1.0
                                                       : p; }},
        {"exponential", [](double p, double) { return std::exp(p); }},
        {"exponential_minus_one", [](double p, double) { return std::expm1(p); }},
        {"log", [](double p, double) { return std::log(p); }},
        {"log_plus_one", [](double p, double) { return std::log1p(p); }},
        {"sqrt", [](double p, double) { return std::sqrt(p); }},
        {"rsqrt", [](double p, double) { return 1 / std::sqrt(p); }},
        {"cbrt", [](double p, double) { return std::cbrt(p); }},
        {"sine", [](double p, double) { return std::sin(p); }},
        {"cosine", [](double p, double) { return std::cos(p); }},
        {"tan", [](double p, double) { return std::tan(p); }},
        {"tanh", [](double p, double) { return std::tanh(p); }},
        {"logistic", [](double p, double) { return 1 / (1 + std::exp(-p)); }},
        {"floor", [](double p, double) { return std::floor(p); }},
        {"ceil", [](double p, double) { return std::ceil(p); }},
        {"round_nearest_even", [](double p, double) { return std::nearbyint(p); }},
    };
    const auto f = all.find(name);
    if (f == all.end()) bad("an unknown operation on floats: " + name);
    return f->second(a, b);
  }
  static std::int64_t of_integers(const std::string& name, const operation& o, dtype t, std::int64_t a,
                                  std::int64_t b) {
    const auto p = static_cast<std::uint64_t>(a), q = static_cast<std::uint64_t>(b);
    const bool positive = is_unsigned(t);
    if (name == "and") return a & b;
    if (name == "or") return a | b;
    if (name == "xor") return a ^ b;
    if (name == "not") return is_bool(t) ? !a : ~a;
    require(!is_bool(t), o, "no arithmetic of flags");
    if (name == "add") return static_cast<std::int64_t>(p + q);
    if (name == "subtract") return static_cast<std::int64_t>(p - q);
    if (name == "multiply") return static_cast<std::int64_t>(p * q);
    if (name == "maximum") return (positive ? p > q : a > b) ? a : b;
    if (name == "minimum") return (positive ? p < q : a < b) ? a : b;
    if (name == "negate") return static_cast<std::int64_t>(0 - p);
    if (name == "abs" || name == "sign") require(!positive, o, "signed numbers alone");
    if (name == "abs") return a < 0 ? static_cast<std::int64_t>(0 - p) : a;
    if (name == "sign") return (a > 0) - (a < 0);
    if (name == "divide" || name == "remainder") {
      require(b != 0 && (positive || b != -1), o, "a quotient that is not defined");
      if (name == "divide") return positive ? static_cast<std::int64_t>(p / q) : a / b;
      return positive ? static_cast<std::int64_t>(p % q) : a % b;
    }
    if (name == "power") {
      require(q < 64, o, "an exponent of which XLA reads the 6 lowest bits alone");
      std::uint64_t y = 1;
      for (std::uint64_t n = q, square = p; n != 0; n >>= 1, square *= square)
        if (n & 1) y *= square;
      return static_cast<std::int64_t>(y);
    }
    require(b >= 0 && b < width(t), o, "a shift that is not defined");
    if (name == "shift_left") return static_cast<std::int64_t>(p << q);
    if (name == "shift_right_arithmetic") return a >> b;
    if (name == "shift_right_logical") return static_cast<std::int64_t>(unsigned_bits(t, a) >> q);
    bad("an unknown operation on integers: " + name);
  }
};

/// The results of a module for these operands.
/// The sizes of slices fit into their operands, also in bodies that do not run.
inline void check_slices(const operation& o) {
  const bool update = o.name == "stablehlo.dynamic_update_slice";
  if (update || o.name == "stablehlo.dynamic_slice") {
    const extents_t &all = o.in_types.at(0).extents, &part = (update ? o.in_types.at(1) : o.out_types.at(0)).extents;
    require(all.size() == part.size(), o, "slices of the operand's rank");
    for (std::size_t d = 0; d < all.size(); ++d) require(part[d] <= all[d], o, "slices within the operand");
  }
  for (const region& r : o.regions)
    for (const operation& inner : r.body) check_slices(inner);
}

inline std::vector<array> results_of(const std::string& text, const std::vector<array>& in,
                                     std::map<std::string, int>* seen = nullptr) {
  interpreter run;
  const operation function = function_of(text);
  check_slices(function);
  std::vector<array> out = run.call(function, in);
  if (seen)
    for (const auto& [name, n] : run.seen) (*seen)[name] += n;
  return out;
}

}  // namespace hlo

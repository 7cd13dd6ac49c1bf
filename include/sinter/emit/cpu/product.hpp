// emit/cpu/product.hpp: a matrix product with its epilogue -> a call of the prelude's gemm.
#pragma once

#include "../../base/series.hpp"
#include "body.hpp"
#include "memory.hpp"

namespace sinter::engine::emit {

class product_printer {
 public:
  product_printer(const kernel& k, writer& out) : k_(k), p_(k.products[0]), out_(out), body_(k, out) {
    const std::size_t columns = static_cast<std::size_t>(p_.batch + p_.m);
    for (std::size_t a = 0; a < k.axes.size(); ++a) {
      if (a < static_cast<std::size_t>(p_.batch)) loops_.push_back(a);
      else if (a < columns) m_.push_back(a);
      else if (a + 1 < k.axes.size()) loops_.push_back(a);  // only the last column axis is the vector
      else n_.push_back(a);
    }
    for (std::size_t a = 0; a < p_.k.size(); ++a) ks_.push_back(k.axes.size() + a);
    turned_ = is_turned();
    if (!turned_) return;
    const auto step = [&](std::size_t a) { return p_.b.at.stride[a].number().value_or(0); };
    std::stable_sort(ks_.begin(), ks_.end(), [&](std::size_t x, std::size_t y) { return step(x) > step(y); });
  }

  /// Whether a word of gemm() computes a product that its recipe has no schedule for: columns as rows, and epilogues that walk several
  /// arrays of the result's extents.
  static bool keeps(const kernel& k) {
    writer nothing;
    const product_printer p(k, nothing);
    return p.turned_ || p.streams();
  }

  /// Prints the call; returns the scratch memory that it uses.
  scratch_use print() {
    for (int id = 0; id < static_cast<int>(k_.body.size()); ++id)
      if (k_.body[static_cast<std::size_t>(id)].axes == 0) body_.define(id, false, false);
    // If there are few products, those too small for gemm() to divide among threads are divided here.
    constexpr std::int64_t max_alone = 1 << 22;
    const std::int64_t loops = extent_of(loops_).number().value_or(0);
    const bool small = (extent_of(m_) * extent_of(n_) * extent_of(ks_)).number().value_or(max_alone) < max_alone;
    const bool over_loops = loops >= 16 || (loops >= 4 && small);
    plan_memory(over_loops);
    const std::int64_t min_shared = over_loops ? 1 << 20 : 1 << 18;
    memory_.parallel = work().number().value_or(min_shared) >= min_shared;
    const std::string a_row = walk(p_.a.at, m_, "am"), a_column = walk(p_.a.at, ks_, "ak");
    const std::string b_row = walk(p_.b.at, ks_, "bk"), b_column = walk(p_.b.at, n_, "bn");
    const std::string shared = memory_.shared.text();
    std::string room = over_loops ? "alone()" : "without_room()";
    if (memory_.by_thread()) room = (over_loops ? "room_alone(scratch, " : "room_of(scratch, ") + shared + ")";
    if (over_loops)
      out_.line("#pragma omp parallel for schedule(static)" +
                std::string(memory_.by_thread() ? " num_threads(threads_of(scratch))" : "") + " if ((" + work().text() +
                ") >= 1048576)");
    out_.block("for (long t = 0; t < " + extent_of(loops_).text() + "; ++t)", [&] {
      unravel("t", loops_);
      out_.block(
          "const auto epilogue = [&](long i, long j, " + vector_type(p_.type) + " sum, long n)", [&] { epilogue(); },
          "};");
      const std::string a = base(p_.a) + ", ", b = base(p_.b) + ", ";
      out_.line("gemm<" + scalar_type(p_.type) +
                (turned_     ? ", false, true"
                 : streams() ? ", true"
                             : "") +
                ">(" + (turned_ ? length(n_) + ", " + length(m_) : length(m_) + ", " + length(n_)) + ", " +
                length(ks_) + ", matrix_of(" + (turned_ ? b + b_column + ", " + b_row : a + a_row + ", " + a_column) +
                "), matrix_of(" + (turned_ ? a + a_column + ", " + a_row : b + b_row + ", " + b_column) +
                "), epilogue, " + room + ");");
    });
    return memory_;
  }

 private:
  const ir::dim& extent(std::size_t a) const {
    return a < k_.axes.size() ? k_.axes[a].extent : p_.k[a - k_.axes.size()];
  }
  ir::dim extent_of(const series<std::size_t>& axes) const {
    ir::dim n = 1;
    for (auto a : axes) n *= extent(a);
    return n;
  }
  ir::dim work() const {
    ir::dim n = extent_of(ks_);
    for (std::size_t a = 0; a < k_.axes.size(); ++a) n *= extent(a);
    return n;
  }

  /// Whether an operand is linear along a group of axes.
  bool is_linear(const plan::affine& at, const series<std::size_t>& axes) const {
    bool linear = true;
    for (std::size_t j = 0; j + 1 < axes.size(); ++j)
      linear = linear && at.stride[axes[j]] == at.stride[axes[j + 1]] * extent(axes[j + 1]);
    return linear;
  }
  bool is_contiguous(const plan::access& a, const series<std::size_t>& axes) const {
    return !axes.empty() && a.at.stride[axes.back()].is(1);
  }
  ir::dim step_of(const plan::access& a, const series<std::size_t>& axes) const {
    return axes.empty() ? ir::dim(0) : a.at.stride[axes.back()];
  }
  /// Whether the product can read an operand in place.
  bool is_plain(const plan::access& a, const series<std::size_t>& rows, const series<std::size_t>& columns) const {
    const dtype t = k_.buffers[static_cast<std::size_t>(a.buffer)].type;
    return t == compute_type(t) && is_linear(a.at, rows) && is_linear(a.at, columns);
  }

  /// True for an epilogue that reads several arrays with the product's extents.
  bool streams() const {
    std::uint32_t rows = 0;
    for (auto a : m_) rows |= 1u << a;
    std::size_t arrays = k_.stores.size();
    for (const auto& i : k_.body) arrays += i.kind == kind::load && (i.axes & rows) && is_along(i.at.at);
    return arrays > 1;
  }
  bool is_along(const plan::affine& at) const { return !n_.empty() && !at.stride[n_[0]].is(0); }

  /// Whether the result's columns are computed as rows. With few rows, the right operand would be most of the packed data; as
  /// the left operand it is read in place. Weights of a convolution with few places are such a case.
  bool is_turned() const {
    const auto m = extent_of(m_).number(), n = extent_of(n_).number(), k = extent_of(ks_).number();
    const auto type = compute_type(p_.type);
    constexpr std::int64_t min_rows = 9, max_rows = 256, min_deep = 257, min_packed = 1 << 16;
    if (!m || !n || !k || *m < min_rows || *m > max_rows || *n <= *m || *k < min_deep || *n * *k < min_packed)
      return false;
    for (const auto* x : {&p_.a, &p_.b})
      if (k_.buffers[static_cast<std::size_t>(x->buffer)].type != type) return false;
    series<std::int64_t> steps;
    for (auto a : ks_) steps.push_back(p_.b.at.stride[a].number().value_or(0));
    std::sort(steps.begin(), steps.end());
    // Contiguous along k in some order of its axes.
    std::int64_t walked = 1;
    for (const auto step : steps) {
      if (step != walked) return false;
      const auto at = std::find_if(ks_.begin(), ks_.end(), [&](std::size_t a) { return p_.b.at.stride[a].is(step); });
      walked *= extent(*at).number().value_or(0);
    }
    return true;
  }

  /// Room for gemm()'s packing and sums: bounds for every machine that may run the kernel. Blocks of a thread are at most its
  /// share of the caches; whole packed operands are at most the shared cache.
  void plan_memory(bool over_loops) {
    const ir::dim m = extent_of(turned_ ? n_ : m_), n = extent_of(turned_ ? m_ : n_), k = extent_of(ks_);
    const bool plain_a = is_plain(p_.a, m_, ks_), plain_b = is_plain(p_.b, ks_, n_), a = turned_ ? plain_b : plain_a,
               b = turned_ ? plain_a : plain_b, along = turned_ ? is_contiguous(p_.a, m_) : is_contiguous(p_.b, n_);
    const bool deep = is_contiguous(p_.a, ks_) && is_contiguous(p_.b, ks_);
    if (!turned_ && a && b && ((m.is(1) && (along || deep)) || (n.is(1) && (is_contiguous(p_.a, m_) || deep)))) return;
    if (!turned_ && a && b && (m * n * k).number().value_or(0) >= 1 << 15 && m.is_number() &&
        (along ? *m.number() <= 4 : deep && *m.number() <= 8 && step_of(p_.b, n_).number().value_or(1) != 1))
      return;
    constexpr std::int64_t block = 256, rows = 136, columns = 32, row_bytes = 4096, lanes = 16, whole = 4 << 20,
                           shallow = 32, small = 1 << 18;
    const ir::dim size = static_cast<std::int64_t>(size_of(compute_type(p_.type)));
    const auto reaches = [](const ir::dim& x, std::int64_t least) { return x.number().value_or(least) >= least; };
    // Gathered rows are packed if there are more columns than gemm()'s limit of few, which is at most 64 on every machine.
    const plan::access& left = turned_ ? p_.b : p_.a;
    const bool gathers =
        k_.buffers[static_cast<std::size_t>(left.buffer)].type == compute_type(p_.type) && !reaches(n, 65);
    const bool packs_a = a ? reaches(n, 33) && reaches(m * k, 4097) : !gathers,
               packs_b = !b || !along || (reaches(m, 17) && reaches(n * k, 65537)),
               edge = n.number().value_or(1) % lanes != 0,
               sums = reaches(k, block + 1) || (streams() && reaches(n, 33) && reaches(m * n, (1 << 14) + 1));
    const auto bounded = [&](series<scratch_use::bounded>& to, const ir::dim& elements, std::int64_t most) {
      to.push_back({elements * size, most});
    };
    const std::int64_t bytes = *size.number();
    if (sums)
      bounded(memory_.blocks, (m + ir::dim(8)) * (n + ir::dim(columns + lanes)), rows * (row_bytes + lanes * bytes));
    if ((packs_b || edge) && reaches(k, shallow + 1))
      bounded(memory_.blocks, k * ir::dim(columns), block * columns * bytes);
    if (packs_a) bounded(memory_.blocks, (m + ir::dim(8)) * k, rows * block * bytes);
    if (!over_loops && reaches(m * n * k, small) && packs_a && (m * k * size).number().value_or(0) <= whole)
      bounded(memory_.behind, (m + ir::dim(8)) * k + ir::dim(64), whole + 64 * bytes);
    if (!over_loops && reaches(m * n * k, small) && packs_b && (n * k * size).number().value_or(0) <= whole)
      bounded(memory_.behind, (n + ir::dim(lanes)) * k + ir::dim(64), whole + 64 * bytes);
    if (!memory_.by_thread()) return;
    memory_.shared = scratch_use::header;
    memory_.tasks = over_loops ? extent_of(loops_) : work();
    if (work().number().value_or(1 << 22) < 1 << (over_loops ? 20 : 22)) memory_.tasks = 1;
  }

  void unravel(const std::string& flat, const series<std::size_t>& axes) {
    print_unraveled(
        flat, axes, [&](std::size_t a) { return "(" + extent(a).text() + ")"; }, out_);
  }

  /// The operand's pointer at the present position of the loops.
  std::string base(const plan::access& a) const {
    return body_.pointer(a.buffer) + " + (" +
           index_text(a.at, [&](std::size_t axis) { return std::count(loops_.begin(), loops_.end(), axis) > 0; }) + ")";
  }

  /// A length as a type, for which the product is compiled, or as a number at run time.
  std::string length(const series<std::size_t>& axes) const {
    const ir::dim n = extent_of(axes);
    return n.is_number() ? "fixed<" + n.text() + ">{}" : "(long)(" + n.text() + ")";
  }

  /// The walk of an operand along a group of axes: linear if they form one axis, else through a table.
  std::string walk(const plan::affine& at, const series<std::size_t>& axes, const std::string& table) {
    if (axes.empty()) return "along<0>{}";
    const bool linear = is_linear(at, axes);
    const ir::dim& step = at.stride[axes.back()];
    if (linear) return step.is_number() ? "along<" + step.text() + ">{}" : "linear{" + step.text() + "}";
    const std::string n = extent_of(axes).text();
    out_.line("long* const " + table + " = (long*)(scratch + " + memory_.shared.text() + ");");
    out_.block("for (long z = 0; z < " + n + "; ++z)", [&] {
      unravel("z", axes);
      series<std::string> terms;
      for (auto a : axes) terms.push_back(scaled(at.stride[a], "i" + std::to_string(a)));
      out_.line(table + "[z] = " + sum(terms) + ";");
    });
    memory_.shared += extent_of(axes) * ir::dim(8);
    return "table{" + table + "}";
  }

  void epilogue() {
    unravel("i", m_);
    if (!n_.empty()) out_.line("const long i" + std::to_string(n_[0]) + " = j;");
    out_.block("if (n == SINTER_W)", [&] { values(false); });
    out_.block("else", [&] { values(true); });
  }

  void values(bool tail) {
    for (int id = 0; id < static_cast<int>(k_.body.size()); ++id) {
      const auto& i = k_.body[static_cast<std::size_t>(id)];
      if (i.axes == 0) continue;
      if (i.kind == kind::product) out_.line("const " + vector_type(i.type) + " " + body_.name(id) + " = sum;");
      else body_.define(id, true, tail);
    }
    for (const auto& s : k_.stores) body_.store(s, true, tail, "");
  }

  const kernel& k_;
  const plan::product& p_;
  writer& out_;
  body_printer body_;
  series<std::size_t> loops_, m_, n_, ks_;
  scratch_use memory_;
  bool turned_ = false;
};

}  // namespace sinter::engine::emit

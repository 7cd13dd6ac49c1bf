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
  }

  /// Prints the call; returns the scratch memory that it uses.
  scratch_use print() {
    for (int id = 0; id < static_cast<int>(k_.body.size()); ++id)
      if (k_.body[static_cast<std::size_t>(id)].axes == 0) body_.define(id, false, false);
    std::string tables;
    const std::string a_row = walk(p_.a.at, m_, "am"), a_column = walk(p_.a.at, ks_, "ak");
    const std::string b_row = walk(p_.b.at, ks_, "bk"), b_column = walk(p_.b.at, n_, "bn");
    const auto count = extent_of(loops_).number();
    const bool over_loops = count && *count >= 16;
    if (over_loops) out_.line("#pragma omp parallel for schedule(static) if ((" + work() + ") >= 1048576)");
    out_.block("for (long t = 0; t < " + extent_of(loops_).text() + "; ++t)", [&] {
      unravel("t", loops_);
      out_.block(
          "const auto epilogue = [&](long i, long j, " + vector_type(p_.type) + " sum, long n)", [&] { epilogue(); },
          "};");
      const std::string s = scalar_type(p_.type);
      out_.line("gemm<" + s + ">(" + length(m_) + ", " + length(n_) + ", " + length(ks_) + ", matrix_of(" + base(p_.a) +
                ", " + a_row + ", " + a_column + "), matrix_of(" + base(p_.b) + ", " + b_row + ", " + b_column +
                "), epilogue, " + (over_loops ? "false" : "true") + ");");
    });
    scratch_use all;
    all.shared = scratch_;
    return all;
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
  std::string work() const {
    ir::dim n = extent_of(ks_);
    for (std::size_t a = 0; a < k_.axes.size(); ++a) n *= extent(a);
    return n.text();
  }

  void unravel(const std::string& flat, const series<std::size_t>& axes) {
    print_unraveled(
        flat, axes, [&](std::size_t a) { return "(" + extent(a).text() + ")"; }, out_);
  }

  /// The operand's pointer at the position of the loops.
  std::string base(const plan::access& a) const {
    return body_.pointer(a.buffer) + " + (" +
           index_text(a.at, [&](std::size_t axis) { return std::count(loops_.begin(), loops_.end(), axis) > 0; }) + ")";
  }

  /// A number as a type, which the product is compiled for, or a number at run time.
  std::string length(const series<std::size_t>& axes) const {
    const ir::dim n = extent_of(axes);
    return n.is_number() ? "fixed<" + n.text() + ">{}" : "(long)(" + n.text() + ")";
  }

  /// How an operand is walked along a group of axes: linear where they are one axis to it, else through a table.
  std::string walk(const plan::affine& at, const series<std::size_t>& axes, const std::string& table) {
    if (axes.empty()) return "along<0>{}";
    bool linear = true;
    for (std::size_t j = 0; j + 1 < axes.size(); ++j)
      linear = linear && at.stride[axes[j]] == at.stride[axes[j + 1]] * extent(axes[j + 1]);
    const ir::dim& step = at.stride[axes.back()];
    if (linear) return step.is_number() ? "along<" + step.text() + ">{}" : "linear{" + step.text() + "}";
    const std::string n = extent_of(axes).text();
    out_.line("long* const " + table + " = (long*)(scratch + " + scratch_.text() + ");");
    out_.block("for (long z = 0; z < " + n + "; ++z)", [&] {
      unravel("z", axes);
      series<std::string> terms;
      for (auto a : axes) terms.push_back(scaled(at.stride[a], "i" + std::to_string(a)));
      out_.line(table + "[z] = " + sum(terms) + ";");
    });
    scratch_ += extent_of(axes) * ir::dim(8);
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
  ir::dim scratch_ = 0;
};

}  // namespace sinter::engine::emit

// emit/cpu/scan.hpp: a scan -> parallel rows, each walked in order with a running value.
#pragma once

#include "../../base/series.hpp"
#include "body.hpp"

namespace sinter::engine::emit {

class scan_printer {
 public:
  scan_printer(const kernel& k, writer& out) : k_(k), out_(out), body_(k, out) {
    for (std::size_t a = 0; a < k.axes.size(); ++a) {
      if (k.axes[a].role == role::outer) outer_.push_back(a);
      else if (k.axes[a].role == role::row) scanned_.push_back(a);
      else lanes_ = static_cast<int>(a);
    }
    for (int id = 0; id < static_cast<int>(k.body.size()); ++id)
      if (body_.at(id).kind == kind::scan) scan_ = id;
  }

  void print() {
    const std::string blocks =
        lanes_ < 0 ? "1" : "((" + extent(static_cast<std::size_t>(lanes_)) + " + SINTER_W - 1)/SINTER_W)";
    std::string tasks = blocks;
    for (auto a : outer_) tasks += "*" + extent(a);
    for (int id = 0; id < scan_; ++id)
      if (body_.at(id).axes == 0) body_.define(id, false, false);
    if (const std::string pragma = omp_for(k_); !pragma.empty()) out_.line(pragma);
    out_.block("for (long t = 0; t < " + tasks + "; ++t)", [&] {
      std::string divisor = blocks;
      for (std::size_t j = outer_.size(); j-- > 0;) {
        out_.line("const long i" + std::to_string(outer_[j]) + " = t/(" + divisor + ")%" + extent(outer_[j]) + ";");
        divisor += "*" + extent(outer_[j]);
      }
      if (lanes_ < 0) return rows(false);
      const std::string first = "i" + std::to_string(lanes_);
      out_.line("const long " + first + " = t%" + blocks + "*SINTER_W;");
      out_.line("const long n = " + extent(static_cast<std::size_t>(lanes_)) + " - " + first + ";");
      out_.block("if (n >= SINTER_W)", [&] { rows(false); });
      out_.block("else", [&] { rows(true); });
    });
  }

 private:
  std::string extent(std::size_t a) const { return "(" + k_.axes[a].extent.text() + ")"; }

  void rows(bool tail) {
    const instruction& s = body_.at(scan_);
    const bool vector = lanes_ >= 0;
    const std::string type = running_type();
    const std::string start = identity_of(s.code, s.type);
    out_.line(type + " running = " + (vector ? "splat<" + type + ">(" + start + ")" : start) + ";");
    if (s.args.size() > 1) out_.line("bool begun = false;");
    loop(0, tail);
  }

  /// A running f32 sum is f64, so that only its last rounding matters for any length.
  bool is_wide() const {
    const instruction& s = body_.at(scan_);
    return s.code == ir::op::add && compute_type(s.type) == dtype::f32;
  }
  std::string running_type() const {
    const dtype t = is_wide() ? dtype::f64 : body_.at(scan_).type;
    return lanes_ >= 0 ? vector_type(t) : scalar_type(t);
  }
  std::string operand(int id) const {
    const std::string x = body_.operand(id, lanes_ >= 0);
    return is_wide() ? "cv<" + running_type() + ">(" + x + ")" : x;
  }

  void loop(std::size_t j, bool tail) {
    if (j == scanned_.size()) return position(tail);
    const std::string i = "i" + std::to_string(scanned_[j]), e = extent(scanned_[j]);
    const bool reverse = body_.at(scan_).reverse;
    out_.block(reverse ? "for (long " + i + " = " + e + " - 1; " + i + " >= 0; --" + i + ")"
                       : "for (long " + i + " = 0; " + i + " < " + e + "; ++" + i + ")",
               [&] { loop(j + 1, tail); });
  }

  void position(bool tail) {
    const bool vector = lanes_ >= 0;
    for (int id = 0; id < scan_; ++id)
      if (body_.at(id).axes != 0) body_.define(id, vector && body_.is_vector(id), tail);
    const instruction& s = body_.at(scan_);
    out_.at(s.where);
    if (s.args.size() > 1) {
      out_.line("if (begun) running = " + body_.combine(ir::op::mul, "running", operand(s.args[1])) + ";");
      out_.line("begun = true;");
    }
    out_.line("running = " + body_.combine(s.code, "running", operand(s.args[0])) + ";");
    const std::string narrow = "cv<" + (vector ? vector_type(s.type) : scalar_type(s.type)) + ">(running)";
    out_.line("const auto " + body_.name(scan_) + " = " + (is_wide() ? narrow : "running") + ";");
    for (const auto& to : k_.stores) body_.store(to, vector, tail, "");
  }

  const kernel& k_;
  writer& out_;
  body_printer body_;
  series<std::size_t> outer_, scanned_;
  int lanes_ = -1, scan_ = -1;
};

}  // namespace sinter::engine::emit

// jit/library/steps.hpp: the steps of a planned graph as C functions, as run/host/program.hpp and run/control.hpp run them.
#pragma once

#include <string>

#include "../backends/cpu.hpp"
#include "memory.hpp"

namespace sinter::engine::detail {

/// A C function that runs the steps of a plan, and the memory that it needs.
struct c_function {
  std::string name;
  c_number scratch_bytes;
};

/// Prints the functions of one program, each after those that it calls.
class step_printer {
 public:
  /// `prefix` begins the names of functions. `kernel_of` has for each text of the program the number of its kernel in the library.
  /// `hints` are the sizes of the plan; `several`: kernels may run on several threads.
  step_printer(c_numbers& numbers, std::string prefix, const series<std::size_t>& kernel_of, series<std::int64_t> hints,
               bool several)
      : numbers_(numbers),
        prefix_(std::move(prefix)),
        kernel_of_(kernel_of),
        hints_(std::move(hints)),
        several_(several) {}

  /// `place` has for each operand that is given its number among those of the function; empty: the same.
  c_function print(const cpu_plan& p, const series<std::size_t>& place = {}) {
    const c_binding where = bind_for_all(numbers_, p.results, p.graph, p.fused.kernels, p.fused.strides, p.shared.step,
                                         {hints_.data(), hints_.size()});
    const std::size_t given = p.graph.inputs.size() + p.results.size();
    std::string body;
    c_number most{0};
    std::size_t text = p.first_text;
    for (std::size_t k = 0; k < p.fused.kernels.size(); ++k) {
      const plan::kernel& kernel = p.fused.kernels[k];
      const auto address = [&](int operand) { return text_of_address(where, given, operand, place); };
      if (kernel.is_opaque()) {
        most = numbers_.larger(most, print_routine(p, k, where, address, body));
        continue;
      }
      const bool begins = p.shared.begins_step(k);
      if (begins) ++text;
      print_call(p, k, kernel_of_[text - 1], where, address, begins, most, body);
    }
    c_function out{prefix_ + "_s" + std::to_string(count_++), numbers_.sum(where.scratch_bytes, most)};
    text_ += "static void " + out.name +
             "(const call* c, void* const* g, char* base) {\n  (void)c, (void)g, (void)base;\n" + body + "}\n";
    return out;
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_of_address(const c_binding& where, std::size_t given, int operand,
                              const series<std::size_t>& place) {
    if (operand < 0) return "0";
    const auto i = static_cast<std::size_t>(operand);
    if (i < given) return "g[" + std::to_string(place.empty() ? i : place[i]) + "]";
    return "base + " + numbers_.in_step(where.intermediates[i - given]);
  }
  std::string scratch_text(const c_number& at) { return at.is(0) ? "base" : "base + " + numbers_.in_step(at); }

  /// A call of a kernel; the first of a step sets the threads' parts.
  template <class Address>
  void print_call(const cpu_plan& p, std::size_t k, std::size_t kernel, const c_binding& where, Address&& address,
                  bool begins, c_number& most, std::string& body) {
    series<c_number> own;
    std::string numbers = "c->z", declared;
    if (p.shared.code[k] >= 0) {
      own = numbers_.symbols();
      const auto code = static_cast<std::size_t>(p.shared.code[k]);
      for (const auto& values : p.shared.codes[code].numbers) own.push_back(numbers_.value(values[p.shared.member[k]]));
      bool known = true;
      for (const auto& n : own) {
        declared += (declared.empty() ? "" : ", ") + numbers_.in_step(n);
        known = known && n.is_known();
      }
      numbers = own.empty() ? "c->z" : "n";
      if (!own.empty())
        declared = (known ? "    static const long n[] = {" : "    const long n[] = {") + declared + "};\n";
    }
    std::string line;
    for (const auto& b : p.fused.kernels[k].buffers)
      line += (line.empty() ? "" : ", ") + address(where.operand.at(static_cast<std::size_t>(b.id)));
    body += "  {\n    void* const t[] = {" + (line.empty() ? "0" : line) + "};\n" + declared;
    if (begins) {
      const auto& symbols = own.empty() ? numbers_.symbols() : own;
      const c_scratch use = scratch_for_all(numbers_, p.sources[k].scratch, {symbols.data(), symbols.size()}, several_);
      if (!use.threads.is(0))
        body += "    ((long*)(" + scratch_text(where.scratch_bytes) + "))[0] = " + numbers_.in_step(use.threads) +
                ";\n    ((long*)(" + scratch_text(where.scratch_bytes) + "))[1] = " + numbers_.in_step(use.of_thread) +
                ";\n";
      most = numbers_.larger(most, use.bytes);
    }
    body += "    c->k[" + std::to_string(kernel) + "](t, " + scratch_text(where.scratch_bytes) + ", " + numbers +
            ");\n  }\n";
  }

  /// Blocks of a routine's scratch memory.
  class blocks {
   public:
    explicit blocks(c_numbers& numbers) : numbers_(numbers) {}
    std::string add(const c_number& bytes) {
      const c_number at = end_;
      end_ = numbers_.sum(end_, numbers_.whole(bytes));
      return at.is(0) ? "w" : "w + " + numbers_.in_step(at);
    }
    const c_number& bytes() const { return end_; }

   private:
    c_numbers& numbers_;
    c_number end_{0};
  };

  /// A branch, a loop or a call; returns the bytes of its scratch memory.
  template <class Address>
  c_number print_routine(const cpu_plan& p, std::size_t k, const c_binding& where, Address&& address,
                         std::string& body) {
    const plan::kernel& kernel = p.fused.kernels[k];
    const ir::node& n = p.graph[kernel.opaque];
    const ir::opaque& step = *n.attr.step;
    series<c_function> parts;
    for (const auto& part : p.parts[k]) parts.push_back(print(part));
    series<std::string> b;
    for (const int place : kernel.places)
      b.push_back(place < 0 ? "0"
                            : address(where.operand.at(
                                  static_cast<std::size_t>(kernel.buffers[static_cast<std::size_t>(place)].id))));
    series<char> in_place;
    if (step.carried > 0) {
      const cpu_plan& inner = p.parts[k].back();
      in_place = carried_in_place(inner.graph, inner.results, step.kind == ir::opaque_kind::loop ? 1 : 0, step.carried,
                                  inner.fused.kernels, inner.shared.step);
    }
    body += "  {\n    char* const w = " + scratch_text(where.scratch_bytes) + ";\n    (void)w;\n";
    blocks memory(numbers_);
    switch (step.kind) {
      case ir::opaque_kind::cond:
      case ir::opaque_kind::call:
        print_once(n, step, parts, b, memory, body);
        break;
      case ir::opaque_kind::loop:
        print_loop(p.graph, n, step, parts, b, in_place, memory, body);
        break;
      default:
        print_while(p.graph, n, step, parts, b, in_place, memory, body);
        break;
    }
    body += "  }\n";
    return memory.bytes();
  }

  void print_once(const ir::node& n, const ir::opaque& step, const series<c_function>& parts,
                  const series<std::string>& b, blocks& memory, std::string& body) {
    const std::size_t first = step.kind == ir::opaque_kind::cond ? 1 : 0;
    std::string given;
    for (std::size_t i = first; i < n.in.size(); ++i) given += b[i] + ", ";
    for (std::size_t r = 0; r < step.results.size(); ++r) {
      const std::string own = memory.add(numbers_.value(bytes_of(step.results[r].type, step.results[r].extents)));
      given += (b[n.in.size() + r] == "0" ? own : b[n.in.size() + r]) + ", ";
    }
    c_number most{0};
    for (const auto& part : parts) most = numbers_.larger(most, part.scratch_bytes);
    const std::string inside = memory.add(most);
    body += "    void* const v[] = {" + given + "0};\n";
    if (first == 1)
      body += "    if (*(const unsigned char*)(" + b[0] + ")) " + parts[0].name + "(c, v, " + inside + ");\n    else " +
              parts[1].name + "(c, v, " + inside + ");\n";
    else body += "    " + parts[0].name + "(c, v, " + inside + ");\n";
  }

  static std::string at(const char* array, std::size_t i) { return array + ("[" + std::to_string(i) + "]"); }
  static std::string slice(const std::string& base, const std::string& i, const std::string& bytes) {
    return "(char*)(" + base + ") + (" + i + ") * " + bytes;
  }
  static std::string copy(const std::string& to, const std::string& from, const std::string& bytes) {
    return "memmove(" + to + ", " + from + ", (size_t)(" + bytes + "));\n";
  }

  void print_loop(const ir::graph& g, const ir::node& n, const ir::opaque& step, const series<c_function>& parts,
                  const series<std::string>& b, const series<char>& in_place, blocks& memory, std::string& body) {
    const ir::graph& inner = step.parts[0];
    const std::size_t carried = step.carried, operands = n.in.size();
    const auto bytes = [&](const ir::graph& of, ir::node_id id) { return numbers_.value(bytes_of(of, id)); };
    series<std::string> size, turns[2], unread;
    for (auto& turn : turns)
      for (std::size_t k = 0; k < carried; ++k) turn.push_back(memory.add(bytes(g, n.in[k])));
    for (std::size_t k = 0; k < carried; ++k) size.push_back(numbers_.in_step(bytes(g, n.in[k])));
    for (std::size_t k = 0; k < step.stacked; ++k)
      unread.push_back(memory.add(bytes(inner, inner.outputs[carried + k])));
    const std::string part = memory.add(parts[0].scratch_bytes);
    const auto result = [&](std::size_t k) { return b[operands + k]; };
    const auto history = [&](std::size_t k) { return b[operands + carried + step.stacked + k]; };
    const std::string length = numbers_.in_step(numbers_.value(step.length));
    const auto place = [&](const std::string& turn) { return step.reverse ? "length - 1 - (" + turn + ")" : turn; };
    body += "    const long length = " + length + ";\n    int64_t index = 0;\n    void* v[] = {&index, ";
    for (std::size_t k = 0; k < operands; ++k) body += b[k] + ", ";
    for (std::size_t k = 0; k < carried + step.stacked; ++k) body += "0, ";
    body += "0};\n";
    const auto owned = [&](std::size_t k) { return !in_place.empty() && in_place[k] && history(k) == "0"; };
    const auto home = [&](std::size_t k) { return result(k) != "0" ? result(k) : turns[0][k]; };
    for (std::size_t k = 0; k < carried; ++k) {
      if (result(k) != "0") body += "    if (length == 0) " + copy(result(k), b[k], size[k]);
      if (history(k) != "0")
        body += "    if (length != 0) " + copy(slice(history(k), place("0"), size[k]), b[k], size[k]);
      if (owned(k))
        body += "    if (length != 0) { " + copy(home(k), b[k], size[k]) + "      " + at("v", 1 + k) + " = " + home(k) +
                "; }\n";
    }
    body += "    for (long turn = 0; turn < length; ++turn) {\n      index = " + place("turn") + ";\n";
    for (std::size_t k = 0; k < step.sliced; ++k)
      body += "      " + at("v", 1 + carried + k) + " = " +
              slice(b[carried + k], "index", numbers_.in_step(bytes(inner, inner.inputs[1 + carried + k]))) + ";\n";
    for (std::size_t k = 0; k < carried; ++k) {
      const std::string to = "      " + at("v", 1 + operands + k) + " = ";
      if (owned(k)) {
        body += to + home(k) + ";\n";
        continue;
      }
      const std::string last = result(k) != "0" ? "turn + 1 == length ? (void*)(" + result(k) + ") : " : "";
      const std::string turned = "(void*)(turn % 2 ? " + turns[1][k] + " : " + turns[0][k] + ")";
      if (history(k) == "0") body += to + last + turned + ";\n";
      else
        body += to + (last.empty() ? "turn + 1 == length ? " + turned + " : " : last) + "(void*)(" +
                slice(history(k), place("turn + 1"), size[k]) + ");\n";
    }
    for (std::size_t k = 0; k < step.stacked; ++k) {
      const std::string own = result(carried + k);
      body +=
          "      " + at("v", 1 + operands + carried + k) + " = " +
          (own == "0" ? unread[k] : slice(own, "index", numbers_.in_step(bytes(inner, inner.outputs[carried + k])))) +
          ";\n";
    }
    body += "      " + parts[0].name + "(c, v, " + part + ");\n";
    for (std::size_t k = 0; k < carried; ++k)
      body += "      " + at("v", 1 + k) + " = " + at("v", 1 + operands + k) + ";\n";
    body += "    }\n";
  }

  void print_while(const ir::graph& g, const ir::node& n, const ir::opaque& step, const series<c_function>& parts,
                   const series<std::string>& b, const series<char>& in_place, blocks& memory, std::string& body) {
    const std::size_t carried = step.carried, operands = n.in.size();
    series<std::string> size, turns[2];
    for (auto& turn : turns)
      for (std::size_t k = 0; k < carried; ++k) turn.push_back(memory.add(numbers_.value(bytes_of(g, n.in[k]))));
    for (std::size_t k = 0; k < carried; ++k) size.push_back(numbers_.in_step(numbers_.value(bytes_of(g, n.in[k]))));
    const std::string test = memory.add({1});
    const std::string part = memory.add(numbers_.larger(parts[0].scratch_bytes, parts[1].scratch_bytes));
    std::string all;
    for (std::size_t k = 0; k < operands; ++k) all += b[k] + ", ";
    body += "    void* tested[] = {" + all + test + "};\n    void* v[] = {" + all;
    for (std::size_t k = 0; k < carried; ++k) body += "0, ";
    body += "0};\n";
    const auto owned = [&](std::size_t k) { return !in_place.empty() && in_place[k]; };
    const auto result = [&](std::size_t k) { return b[operands + k]; };
    for (std::size_t k = 0; k < carried; ++k) {
      if (!owned(k)) continue;
      const std::string home = result(k) != "0" ? result(k) : turns[0][k];
      body += "    " + copy(home, b[k], size[k]) + "    " + at("tested", k) + " = " + at("v", k) + " = " + home + ";\n";
    }
    body += "    for (int turn = 0;; turn ^= 1) {\n      " + parts[0].name + "(c, tested, " + part +
            ");\n      if (!*(const unsigned char*)(" + test + ")) break;\n";
    for (std::size_t k = 0; k < carried; ++k)
      body += "      " + at("v", operands + k) + " = " +
              (owned(k) ? at("v", k) : "(void*)(turn ? " + turns[1][k] + " : " + turns[0][k] + ")") + ";\n";
    body += "      " + parts[1].name + "(c, v, " + part + ");\n";
    for (std::size_t k = 0; k < carried; ++k)
      body += "      " + at("v", k) + " = " + at("tested", k) + " = " + at("v", operands + k) + ";\n";
    body += "    }\n";
    for (std::size_t k = 0; k < carried; ++k)
      if (result(k) != "0")
        body += "    if (" + result(k) + " != " + at("v", k) + ") " + copy(result(k), at("v", k), size[k]);
  }

  c_numbers& numbers_;
  std::string prefix_;
  const series<std::size_t>& kernel_of_;
  series<std::int64_t> hints_;
  bool several_;
  std::size_t count_ = 0;
  std::string text_;
};

}  // namespace sinter::engine::detail

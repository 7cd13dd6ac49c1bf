// jit/library/steps.hpp: the steps of a planned graph as C functions, as run/host/program.hpp and run/control.hpp run them.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "../backends/cpu.hpp"
#include "../backends/cuda.hpp"
#include "memory.hpp"

namespace sinter::engine::detail {

/// A C function that runs the steps of a plan, and the memory that it needs.
struct c_function {
  std::string name;
  c_number scratch_bytes;
};

/// An entry of a GPU library's code: the text that has it, its name there, and its bytes of dynamic shared memory.
struct gpu_entry {
  std::size_t text = 0;
  std::string name;
  int shared = 0;
};

/// The entries of a library for GPUs, each once.
struct gpu_entries {
  series<gpu_entry> all;
  std::map<std::tuple<std::size_t, std::string, int>, std::size_t> known;

  std::size_t add(gpu_entry e) {
    const auto [at, fresh] = known.emplace(std::tuple(e.text, e.name, e.shared), all.size());
    if (fresh) all.push_back(std::move(e));
    return at->second;
  }
};

/// Prints the functions of one program, each after those that it calls.
class step_printer {
 public:
  /// `prefix` begins the names of functions. `kernel_of` has for each text of the program the number of its kernel in the library.
  /// `hints` are the sizes of the plan; `several`: kernels may run on several threads. `gpu` receives the entries of a program for
  /// GPUs; null for the host.
  step_printer(c_numbers& numbers, std::string prefix, const series<std::size_t>& kernel_of, series<std::int64_t> hints,
               bool several, gpu_entries* gpu = nullptr)
      : numbers_(numbers),
        prefix_(std::move(prefix)),
        kernel_of_(kernel_of),
        hints_(std::move(hints)),
        several_(several),
        gpu_(gpu) {}

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
        most = numbers_.larger(most, print_routine(p, kernel, p.parts[k], where, address, body));
        continue;
      }
      const bool begins = p.shared.begins_step(k);
      if (begins) ++text;
      print_call(p, k, kernel_of_[text - 1], where, address, begins, most, body);
    }
    return function_of(numbers_.sum(where.scratch_bytes, most), body);
  }

  c_function print(const cuda_plan& p, const series<std::size_t>& place = {}) {
    const c_binding where =
        bind_for_all(numbers_, p.results, p.graph, p.kernels, p.strides, p.when, {hints_.data(), hints_.size()});
    const std::size_t given = p.graph.inputs.size() + p.results.size();
    const auto address = [&](int operand) { return text_of_address(where, given, operand, place); };
    std::string body;
    c_number most{0};
    for (std::size_t n = 0; n < p.groups.size(); ++n) {
      const plan::kernel& first = p.kernels[p.groups[n].first];
      most = numbers_.larger(most, first.is_opaque() ? print_routine(p, first, p.parts[n], where, address, body)
                                                     : print_launches(p, p.groups[n], where, address, body));
    }
    return function_of(numbers_.sum(where.scratch_bytes, most), body);
  }

  const std::string& text() const { return text_; }

 private:
  c_function function_of(const c_number& scratch, const std::string& body) {
    c_function out{prefix_ + "_s" + std::to_string(count_++), scratch};
    text_ += "static void " + out.name + "(call* c, void* const* g, char* base) {\n  (void)c, (void)g, (void)base;\n" +
             body + "}\n";
    return out;
  }

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

  /// The operands of a launch: parameters, and a table, as run/cuda/program/program.hpp has them.
  struct launch_text {
    std::string declared, parameters;
    c_number table{0};  ///< bytes of a table in memory
  };

  /// An element's parameter is the element itself, which lies at its address on the host.
  template <class Address>
  launch_text parameters_of(const series<const plan::buffer_use*>& buffers, const emit::cuda_source& source,
                            const c_binding& where, Address&& address, const std::string& scratch) {
    launch_text out;
    const auto of = [&](int b) { return address(where.operand.at(static_cast<std::size_t>(buffers[b]->id))); };
    std::string line;
    for (std::size_t b = 0; b < buffers.size(); ++b) line += (b ? ", " : "") + of(static_cast<int>(b));
    out.declared = "    void* const t[] = {" + (line.empty() ? "0" : line) + "};\n";
    const auto add = [&](const std::string& text) {
      out.parameters += (out.parameters.empty() ? "" : ", ") + ("(void*)" + text);
    };
    const auto parameter = [&](int b) { add((buffers[b]->by_value ? "t[" : "&t[") + std::to_string(b) + "]"); };
    const emit::cuda_table& table = source.table;
    if (table.numbers.empty()) {
      for (std::size_t b = 0; b < buffers.size(); ++b) parameter(static_cast<int>(b));
      return out;
    }
    for (const int b : source.parameters) parameter(b);
    std::string entries, values, copies;
    for (std::size_t i = 0; i < table.buffers.size(); ++i) {
      const int b = table.buffers[i];
      entries += (i ? ", " : "") + (buffers[b]->by_value ? std::string("0") : "t[" + std::to_string(b) + "]");
      if (buffers[b]->by_value)
        copies += "    memcpy(&table.p[" + std::to_string(i) + "], t[" + std::to_string(b) + "], " +
                  std::to_string(size_of(buffers[b]->type)) + ");\n";
    }
    for (std::size_t i = 0; i < table.numbers.size(); ++i)
      values += (i ? ", " : "") + numbers_.in_step(numbers_.value(table.numbers[i]));
    const std::string type = table.number_bytes == 8 ? "long" : "int";
    const bool pointers = !table.buffers.empty();
    out.declared += "    struct { " +
                    (pointers ? "void* p[" + std::to_string(table.buffers.size()) + "]; " : std::string()) + type +
                    " n[" + std::to_string(table.numbers.size()) + "]; } table = {" +
                    (pointers ? "{" + entries + "}, " : "") + "{" + values + "}};\n" + copies;
    if (!table.in_memory) return add("&table"), out;
    const auto bytes = static_cast<std::int64_t>(8 * table.buffers.size()) +
                       (static_cast<std::int64_t>(table.numbers.size()) * table.number_bytes + 7) / 8 * 8;
    out.table = numbers_.whole({bytes});
    out.declared += "    char* const sent = " + scratch + ";\n    send(c, sent, &table, sizeof table);\n";
    add("&sent");
    return out;
  }

  /// The launches of a group's kernels; returns the bytes of their scratch memory, at whose end a table lies.
  template <class Address>
  c_number print_launches(const cuda_plan& p, const cuda_group& group, const c_binding& where, Address&& address,
                          std::string& body) {
    const emit::cuda_source& source = group.source;
    series<const plan::buffer_use*> buffers;
    for (const plan::kernel& k : group.of(p.kernels))
      for (const auto& b : k.buffers) buffers.push_back(&b);
    const c_number scratch = numbers_.whole(numbers_.value(source.scratch));
    const std::string w = scratch_text(where.scratch_bytes),
                      behind = scratch_text(numbers_.sum(where.scratch_bytes, scratch));
    launch_text all = parameters_of(buffers, source, where, address, behind);
    all.declared += "    char* const w = " + w + ";\n";
    all.parameters += all.parameters.empty() ? "(void*)&w" : ", (void*)&w";
    for (std::size_t k = 0; k < numbers_.symbols().size(); ++k)
      all.parameters += ", (void*)&c->z[" + std::to_string(k) + "]";
    if (group.count == 1 && p.shared.code[group.first] >= 0) {
      std::string values;
      std::size_t n = 0;
      for (const auto& of : p.shared.codes[static_cast<std::size_t>(p.shared.code[group.first])].numbers) {
        values += (n ? ", " : "") + numbers_.in_step(numbers_.value(of[p.shared.member[group.first]]));
        all.parameters += ", (void*)&n[" + std::to_string(n++) + "]";
      }
      if (n > 0) all.declared += "    const long n[] = {" + values + "};\n";
    }
    body += "  {\n" + all.declared + guard_of(p, group) + "    void* a[] = {" + all.parameters + "};\n";
    for (const auto& launch : source.launches) {
      if (launch.blocks.is(0)) continue;
      const std::size_t number = kernel_of_[static_cast<std::size_t>(group.text) + launch.text];
      const std::size_t entry = gpu_->add({number, launch.entry, launch.shared});
      body += "    launch(c, " + std::to_string(entry) + ", " + numbers_.in_step(numbers_.value(launch.blocks)) + ", " +
              std::to_string(launch.threads) + ", " + std::to_string(launch.shared) + ", a);\n";
    }
    body += "  }\n";
    return numbers_.sum(scratch, all.table);
  }

  /// Rows that are longer than those for which the code was chosen, by the largest sizes, are a failure.
  std::string guard_of(const cuda_plan& p, const cuda_group& group) {
    std::string out;
    if (group.fit.longest <= 0) return out;
    for (const plan::kernel& k : group.of(p.kernels)) {
      const ir::dim row = k.is_sort() ? k.extent(plan::role::row) : k.extent(plan::role::inner);
      if (!row.is_number())
        out += "    if (" + numbers_.in_step(numbers_.value(row)) + " > " + std::to_string(group.fit.longest) +
               ") { c->code = too_long; return; }\n";
    }
    return out;
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

  static series<char> in_place_of(const cpu_plan& body, std::size_t first, std::size_t carried) {
    return carried_in_place(body.graph, body.results, first, carried, body.fused.kernels, body.shared.step);
  }
  static series<char> in_place_of(const cuda_plan& body, std::size_t first, std::size_t carried) {
    return carried_in_place(body.graph, body.results, first, carried, body.kernels, body.when);
  }

  /// A branch, a loop or a call; returns the bytes of its scratch memory.
  template <class Plan, class Address>
  c_number print_routine(const Plan& p, const plan::kernel& kernel, const series<Plan>& plans, const c_binding& where,
                         Address&& address, std::string& body) {
    const ir::node& n = p.graph[kernel.opaque];
    const ir::opaque& step = *n.attr.step;
    series<c_function> parts;
    for (const auto& part : plans) parts.push_back(print(part));
    series<std::string> b;
    for (const int place : kernel.places)
      b.push_back(place < 0 ? "0"
                            : address(where.operand.at(
                                  static_cast<std::size_t>(kernel.buffers[static_cast<std::size_t>(place)].id))));
    series<char> in_place;
    if (step.carried > 0)
      in_place = in_place_of(plans.back(), step.kind == ir::opaque_kind::loop ? 1 : 0, step.carried);
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
      body += "    if (" + flag(b[0]) + ") " + parts[0].name + "(c, v, " + inside + ");\n    else " + parts[1].name +
              "(c, v, " + inside + ");\n";
    else body += "    " + parts[0].name + "(c, v, " + inside + ");\n";
  }

  static std::string at(const char* array, std::size_t i) { return array + ("[" + std::to_string(i) + "]"); }
  static std::string slice(const std::string& base, const std::string& i, const std::string& bytes) {
    return "(char*)(" + base + ") + (" + i + ") * " + bytes;
  }
  std::string copy(const std::string& to, const std::string& from, const std::string& bytes) const {
    if (gpu_) return "copy(c, " + to + ", " + from + ", " + bytes + ");\n";
    return "memmove(" + to + ", " + from + ", (size_t)(" + bytes + "));\n";
  }
  std::string flag(const std::string& at) const {
    return gpu_ ? "flag(c, " + at + ")" : "*(const unsigned char*)(" + at + ")";
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
    body += "    for (int turn = 0;; turn ^= 1) {\n      " + parts[0].name + "(c, tested, " + part + ");\n      if (!" +
            flag(test) + ") break;\n";
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
  gpu_entries* gpu_;
  std::size_t count_ = 0;
  std::string text_;
};

}  // namespace sinter::engine::detail

// jit/backends/cuda_assembly.hpp: makes the steps of a program on a GPU from printed kernels and library calls, with numbers
// for some sizes.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <variant>

#include "../../base/series.hpp"
#include "../../emit/cuda/kernel.hpp"
#include "../../plan/fusion/gaps.hpp"
#include "../../plan/kernel/sized.hpp"
#include "../../plan/lowering/library_call.hpp"
#include "../../plan/schedule/fit.hpp"
#include "../../run/cuda/program/blas.hpp"
#include "../../run/cuda/program/nvrtc.hpp"
#include "../../run/cuda/program/program.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// "mul exp reduce (at net.cpp:12)": the name of a group of kernels in errors.
inline const char* label_of(std::span<const plan::kernel> group) {
  series<std::string> labels;
  location where;
  for (const auto& k : group) {
    labels.push_back(k.label);
    for (const auto& i : k.body)
      if (where.line == 0) where = i.where;
  }
  return run::cuda::label(sinter::detail::located(plan::joined(labels, " | "), where));
}

inline run::cuda::matmul to_matmul(const plan::blas_call& b, const options& how) {
  using run::cuda::epilogue;
  constexpr epilogue after[2][3] = {{epilogue::none, epilogue::relu, epilogue::gelu},
                                    {epilogue::bias, epilogue::bias_relu, epilogue::bias_gelu}};
  run::cuda::matmul m;
  m.m = b.m;
  m.n = b.n;
  m.k = b.k;
  m.batch = b.batch;
  m.repeat = b.repeat;
  m.type = b.type;
  m.result = b.result;
  const auto place = [](const plan::blas_operand& o, std::int64_t& row, std::int64_t& batch, std::int64_t& offset,
                        std::int64_t& repeat) {
    row = o.row;
    batch = o.batch;
    offset = o.offset;
    repeat = o.repeat;
    return o.transpose;
  };
  m.transpose_a = place(b.a, m.row_a, m.batch_a, m.offset_a, m.repeat_a);
  m.transpose_b = place(b.b, m.row_b, m.batch_b, m.offset_b, m.repeat_b);
  place(b.out, m.row_out, m.batch_out, m.offset_out, m.repeat_out);
  m.offset_bias = b.bias_offset;
  m.after = after[b.bias >= 0][static_cast<int>(b.after)];
  m.tf32 = how.precision == precision::high;
  return m;
}

/// The greatest size of intermediates that do not share memory.
inline constexpr std::int64_t max_scratch_apart = std::int64_t{256} << 20;

/// The assumptions of a source of kernels that share launches, for `sizes`.
inline plan::size_fit fit_for(std::span<const plan::kernel> kernels, std::span<const std::int64_t> sizes,
                              const plan::target& target) {
  plan::size_fit all{.small = true};
  for (const auto& k : kernels) {
    const plan::kernel known = plan::with_sizes(k, sizes);
    plan::size_fit one = plan::fit_of(known);
    if (target.serves_smaller) one = plan::fit_for_all(k, one);
    all.small = all.small && one.small;
    all.longest = std::max(all.longest, one.longest);
    all.whole = all.whole || one.whole;  // if several have rows, their lengths are equal
    all.narrow =
        all.narrow || (known.is_product() && is_narrow(plan::extents_of(known)) && is_small_product(known, {}, target));
  }
  return all;
}

/// The kernels of a launch, and its form: a call of a library, or a printed text.
struct cuda_group {
  std::size_t first = 0, count = 0;
  std::optional<plan::library_call> call;  ///< for the sizes of the traced call
  series<plan::row_gaps> cleared;          ///< gaps of padded arrays that are set to 0 before it runs
  emit::cuda_source source;
  int text = -1;             ///< the index of its first text among all compiled texts
  plan::size_fit fit;        ///< of the source; with symbols, sizes may later need another one
  series<cuda_group> apart;  ///< with symbols, for a product with a follower: its kernels, if sizes make it wide

  std::span<const plan::kernel> of(const series<plan::kernel>& kernels) const { return {&kernels[first], count}; }
};

/// Kernels that only sizes other than the traced call's need; they are made on first use.
class late_cuda_kernels {
 public:
  struct made {
    const cuda_group* group = nullptr;
    plan::size_fit fit;
    emit::cuda_source source;
    series<run::cuda::built> modules;
  };

  late_cuda_kernels(int device, const plan::target& target) : device_(device), target_(target) {}

  const made& get(const cuda_group& group, const series<plan::kernel>& kernels, plan::size_fit fit) {
    const std::lock_guard lock(mutex_);
    for (const auto& m : all_)
      if (m->group == &group && m->fit == fit) return *m;
    series<plan::kernel> copies(kernels.begin() + static_cast<std::ptrdiff_t>(group.first),
                                kernels.begin() + static_cast<std::ptrdiff_t>(group.first + group.count));
    series<const plan::kernel*> parts;
    for (auto& k : copies) {
      k.fit = fit;
      parts.push_back(&k);
    }
    auto m = std::make_unique<made>();
    m->group = &group;
    m->fit = fit;
    m->source = emit::cuda(parts, target_);
    for (const auto& text : m->source.texts) logs::to("output_code", [&] { return text; });
    m->modules = run::cuda::build(m->source.texts, device_);
    all_.push_back(std::move(m));
    return *all_.back();
  }

 private:
  int device_;
  plan::target target_;
  std::mutex mutex_;
  series<std::unique_ptr<made>> all_;
};

/// The steps of a program whose kernels have been printed, and each kernel's operands.
class cuda_assembly {
 public:
  /// With `apart`, each kernel and routine has its own scratch memory, so that they may overlap.
  cuda_assembly(run::cuda::sequence& out, const series<plan::kernel>& kernels, const binding& where, bool apart,
                std::span<const std::int64_t> sizes)
      : out_(out), kernels_(kernels), where_(where), apart_(apart), sizes_(sizes) {}

  /// Sets the gaps to 0 over which a later product sums.
  void add_clearing(const cuda_group& g) {
    for (const auto& gaps : g.cleared) {
      run::cuda::step s;
      s.what = run::cuda::action::fill;
      s.label = run::cuda::label("gaps between rows");
      s.operands.push_back({where_.operand.at(static_cast<std::size_t>(gaps.buffer)), 0, true});
      s.from = gaps.from;
      s.bytes = gaps.bytes;
      s.pitch = gaps.pitch;
      s.rows = gaps.rows;
      out_.steps.push_back(std::move(s));
    }
  }

  void add_library_call(const cuda_group& g, const plan::library_call& call, const options& how) {
    run::cuda::step s;
    s.label = label_of({&kernels_[g.first], 1});
    const auto add_buffers = [&](std::initializer_list<int> buffers) {
      for (int b : buffers)
        if (b >= 0) s.operands.push_back(operand_of(kernels_[g.first].buffers[static_cast<std::size_t>(b)]));
    };
    std::visit(
        [&]<class Call>(const Call& c) {
          if constexpr (std::is_same_v<Call, plan::blas_call>) {
            s.what = run::cuda::action::product;
            s.product = to_matmul(c, how);
            add_buffers({c.a.buffer, c.b.buffer, c.out.buffer, c.bias});
          } else {
            s.what = run::cuda::action::convolution;
            s.windows = c.what;
            s.first = {c.image_offset, c.weights_offset, c.result_offset, c.bias_offset};
            add_buffers({c.image, c.weights, c.result, c.bias});
          }
        },
        call);
    out_.steps.push_back(std::move(s));
  }

  /// `modules` are those of the source's texts; the first has index `text` in the program, or -1 for a source made late.
  /// `numbers` follow the sizes in the code's parameters.
  void add_launches(const cuda_group& g, const emit::cuda_source& source, const run::cuda::built* modules, int text,
                    const series<long>& numbers) {
    const auto group = g.of(kernels_);
    const char* const label = label_of(group);
    const std::int64_t own = source.scratch.evaluate(sizes_), at = apart_ ? round_up(scratch_, 256) : 0;
    for (const auto& launch : source.launches) {
      const run::cuda::built& m = modules[launch.text];
      run::cuda::step s = run::cuda::make_launch(m.code, run::name_in_image(launch.entry, m.suffix),
                                                 launch.blocks.evaluate(sizes_), launch.threads, launch.shared, label);
      s.text = text < 0 ? -1 : text + static_cast<int>(launch.text);
      add_operands(s, group, source);
      for (std::size_t i = 0; i < launch.touches.size(); ++i) s.operands[i].touched = launch.touches[i];
      s.scratch = scratch_begin() + at;
      s.scratch_bytes = own;
      s.own_sizes = numbers;
      s.awaits = s.code->where().capability >= 90;
      out_.steps.push_back(std::move(s));
    }
    scratch_ = std::max(scratch_, at + own);
  }

  void add_call(const cuda_group& g, std::shared_ptr<const run::cuda::routine> call) {
    const plan::kernel& k = kernels_[g.first];
    run::cuda::step s;
    s.what = run::cuda::action::call;
    s.label = run::cuda::label(k.label);
    for (int place : k.places)
      if (place >= 0) s.operands.push_back(operand_of(k.buffers[static_cast<std::size_t>(place)]));
      else s.operands.push_back({-1});
    const std::int64_t own = call->scratch_bytes(), at = apart_ ? round_up(scratch_, 256) : 0;
    s.scratch = scratch_begin() + at;
    s.scratch_bytes = own;
    scratch_ = std::max(scratch_, at + own);
    s.call = std::move(call);
    out_.steps.push_back(std::move(s));
  }

  void finish(int device) {
    out_.device = device;
    out_.sizes = static_cast<int>(sizes_.size());
    out_.given = where_.operands - static_cast<int>(where_.intermediates.size());
    out_.intermediates = where_.intermediates;
    for (const auto& life : where_.lives) out_.intermediate_bytes.push_back(life.bytes);
    out_.scratch_bytes = scratch_begin() + scratch_;
    if (out_.table_bytes == 0) return;
    out_.tables = round_up(out_.scratch_bytes, 256);
    out_.scratch_bytes = out_.tables + out_.table_bytes;
  }

 private:
  /// The operands that are parameters, then the table's operands, and its numbers.
  void add_operands(run::cuda::step& s, std::span<const plan::kernel> group, const emit::cuda_source& source) {
    series<run::cuda::operand> all;
    for (const auto& k : group)
      for (const auto& b : k.buffers) all.push_back(operand_of(b));
    const emit::cuda_table& table = source.table;
    if (table.numbers.empty()) {
      s.operands = std::move(all);
      return;
    }
    for (int b : source.parameters) s.operands.push_back(all[static_cast<std::size_t>(b)]);
    for (int b : table.buffers) s.operands.push_back(all[static_cast<std::size_t>(b)]);
    s.tabled = table.buffers.size();
    const auto bytes = static_cast<std::size_t>(table.number_bytes);
    s.numbers.resize((table.numbers.size() * bytes + 7) / 8 * 8);
    for (std::size_t i = 0; i < table.numbers.size(); ++i) {
      const std::int64_t n =
          table.numbers[i].evaluate(sizes_);  // little endian: the first bytes are the smaller number
      std::memcpy(s.numbers.data() + i * bytes, &n, bytes);
    }
    if (!table.in_memory) return;
    s.table_at = out_.table_bytes;
    out_.table_bytes += static_cast<std::int64_t>(s.table_bytes());
  }
  run::cuda::operand operand_of(const plan::buffer_use& b) const {
    return {where_.operand.at(static_cast<std::size_t>(b.id)), b.by_value ? static_cast<int>(size_of(b.type)) : 0,
            b.written};
  }
  std::int64_t scratch_begin() const { return round_up(where_.scratch_bytes, 256); }
  static std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

  run::cuda::sequence& out_;
  const series<plan::kernel>& kernels_;
  const binding& where_;
  bool apart_;
  std::span<const std::int64_t> sizes_;
  std::int64_t scratch_ = 0;
};

}  // namespace sinter::engine::detail

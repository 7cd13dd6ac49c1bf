// run/cuda/program/control.hpp: branches, loops and users' kernels on a GPU: the host requests each step, or a recorded call
// contains them.
#pragma once

#include "../../control.hpp"
#include "../device/copy.hpp"
#include "program.hpp"
#include "tape.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// The operations of branches and loops on one stream.
struct part_runner {
  queue& q;
  const long* sizes;

  void copy(void* to, const void* from, std::int64_t bytes) const {
    if (bytes > 0)
      check(driver().copy_within(address_of(to), address_of(from), static_cast<std::size_t>(bytes), q.handle),
            "copying on the GPU");
  }
  /// Waits for all earlier requests of the stream.
  bool read(const void* from) const {
    bool value = false;
    device_to_host(&value, from, sizeof value, q);
    return value;
  }
  void run(const sequence& s, std::span<void* const> given, char* scratch) const {
    execute_in(s, given, scratch, sizes, q);
  }
};

}  // namespace detail

class branch final : public routine {
 public:
  branch(sequence yes, sequence no, std::size_t operands, const series<std::int64_t>& result_bytes)
      : branch_(std::move(yes), std::move(no), operands, result_bytes) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    const detail::part_runner machine{q, sizes};
    branch_of<sequence>::given given(branch_, buffers, scratch);
    machine.run(branch_.parts[machine.read(buffers[0])], given, scratch + branch_.part);
  }
  std::int64_t scratch_bytes() const override { return branch_.bytes; }

  std::int64_t nodes() const override {
    return sum_of_nodes(sum_of_nodes(3, 1, nodes_of(branch_.parts[0])), 1, nodes_of(branch_.parts[1]));
  }
  std::span<const sequence> parts() const override { return branch_.parts; }
  void record(void* const* buffers, char* scratch, tape& t) const override {
    branch_of<sequence>::given given(branch_, buffers, scratch);
    const api::condition conditions[] = {t.condition(), t.condition()};
    t.choose(buffers[0], conditions[1], conditions[0]);
    t.side_by_side(2, [&](std::size_t k) {
      t.body(api::conditional_if, conditions[k], [&] { t.steps(branch_.parts[k], given, scratch + branch_.part); });
    });
  }

 private:
  branch_of<sequence> branch_;
};

class call final : public routine {
 public:
  call(sequence part, std::size_t operands, const series<std::int64_t>& result_bytes)
      : call_(std::move(part), operands, result_bytes) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    call_of<sequence>::given given(call_, buffers, scratch);
    execute_in(call_.part, given, scratch + call_.inside, sizes, q);
  }
  std::int64_t scratch_bytes() const override { return call_.bytes; }

  std::int64_t nodes() const override { return nodes_of(call_.part); }
  std::span<const sequence> parts() const override { return {&call_.part, 1}; }
  void record(void* const* buffers, char* scratch, tape& t) const override {
    call_of<sequence>::given given(call_, buffers, scratch);
    t.steps(call_.part, given, scratch + call_.inside);
  }

 private:
  call_of<sequence> call_;
};

class loop final : public routine {
 public:
  loop(sequence body, loop_shape shape) : loop_(std::move(body), std::move(shape)) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    struct : detail::part_runner {
      const sequence* steps;
      void body(std::span<void* const> given, char* at) const { run(*steps, given, at); }
    } const machine{{q, sizes}, &loop_.body};
    run_loop(loop_.shape, loop_.at, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return loop_.at.bytes; }

  std::int64_t nodes() const override {
    return sum_of_nodes(static_cast<std::int64_t>(loop_.shape.carried.size()), loop_.shape.length,
                        nodes_of(loop_.body));
  }
  std::span<const sequence> parts() const override { return {&loop_.body, 1}; }
  /// One step after another: kernels have the index, and the places of slices, as parameters.
  void record(void* const* buffers, char* scratch, tape& t) const override {
    struct {
      tape& t;
      const sequence& steps;
      void copy(void* to, const void* from, std::int64_t bytes) const { t.copy(to, from, bytes); }
      void body(std::span<void* const> given, char* at) const { t.steps(steps, given, at); }
    } const machine{t, loop_.body};
    // Readers of a carried value may run beside the writer of the next one.
    run_loop(loop_.shape, loop_.at, buffers, scratch, machine, false);
  }

 private:
  loop_of<sequence> loop_;
};

class while_loop final : public routine {
 public:
  while_loop(sequence test, sequence body, series<std::int64_t> carried, series<char> in_place, std::size_t constants)
      : while_(std::move(test), std::move(body), std::move(carried), std::move(in_place), constants) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    struct : detail::part_runner {
      const sequence *tested, *steps;
      bool test(std::span<void* const> given, char* at) const {
        run(*tested, given, at);
        return read(given.back());
      }
      void body(std::span<void* const> given, char* at) const { run(*steps, given, at); }
    } const machine{{q, sizes}, &while_.parts[0], &while_.parts[1]};
    run_while(while_.carried, while_.in_place, while_.constants, while_.at, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return while_.at.bytes; }

  std::int64_t nodes() const override {
    const auto copies = static_cast<std::int64_t>(3 * while_.carried.size());
    return sum_of_nodes(sum_of_nodes(copies + 3, 2, nodes_of(while_.parts[0])), 1, nodes_of(while_.parts[1]));
  }
  std::span<const sequence> parts() const override { return while_.parts; }
  /// Carried values are in the first of their two places whenever the test runs, because a graph's addresses are the same at
  /// each turn.
  void record(void* const* buffers, char* scratch, tape& t) const override {
    const std::size_t carried = while_.carried.size(), operands = carried + while_.constants;
    address_list tested(operands + 1), given(operands + carried);
    for (std::size_t k = 0; k < operands; ++k)
      tested[k] = given[k] = k < carried ? scratch + while_.at.turns[0][k] : buffers[k];
    for (std::size_t k = 0; k < carried; ++k) given[operands + k] = scratch + while_.at.turns[1][k];
    tested[operands] = scratch + while_.at.test;
    const api::condition again = t.condition();
    const auto test = [&] {
      t.steps(while_.parts[0], tested, scratch + while_.at.part);
      t.choose(tested[operands], again, again);
    };
    t.side_by_side(carried, [&](std::size_t k) { t.copy(given[k], buffers[k], while_.carried[k]); });
    test();
    t.body(api::conditional_while, again, [&] {
      t.steps(while_.parts[1], given, scratch + while_.at.part);
      t.side_by_side(carried, [&](std::size_t k) { t.copy(given[k], given[operands + k], while_.carried[k]); });
      test();
    });
    t.side_by_side(carried, [&](std::size_t k) {
      if (buffers[operands + k]) t.copy(buffers[operands + k], given[k], while_.carried[k]);
    });
  }

 private:
  while_of<sequence> while_;
};

/// A user's kernel: its parameters are the addresses of operands and results, then `numbers`.
class user_kernel final : public routine {
 public:
  user_kernel(step launch, std::size_t operands, series<std::int64_t> result_bytes, series<long long> numbers)
      : operands_(operands), numbers_(std::move(numbers)), unread_(at_, result_bytes) {
    launch_.steps.push_back(std::move(launch));
  }
  void run(void* const* buffers, char* scratch, const long*, queue& q) const override {
    with_parameters(buffers, scratch, [&](const step& s, void** parameters, std::span<void* const>) {
      detail::launch(s, parameters, q, driver());
    });
  }
  std::int64_t scratch_bytes() const override { return at_.bytes(); }

  std::int64_t nodes() const override { return 1; }
  std::span<const sequence> parts() const override { return {&launch_, 1}; }
  void record(void* const* buffers, char* scratch, tape& t) const override {
    with_parameters(buffers, scratch, [&](const step& s, void** parameters, std::span<void* const> addresses) {
      t.kernel(s, parameters, addresses);
    });
  }

 private:
  template <class F>
  void with_parameters(void* const* buffers, char* scratch, F&& f) const {
    if (launch_.steps[0].blocks == 0) return;
    const std::size_t count = operands_ + unread_.size();
    address_list addresses(count), parameters(count + numbers_.size());
    std::copy_n(buffers, count, addresses.data());
    unread_.fill(addresses.data() + operands_, scratch);
    for (std::size_t k = 0; k < count; ++k) parameters[k] = &addresses[k];
    for (std::size_t k = 0; k < numbers_.size(); ++k) parameters[count + k] = const_cast<long long*>(&numbers_[k]);
    f(launch_.steps[0], parameters.data(), addresses);
  }

  sequence launch_;  ///< of one step, whose operands are the routine's
  std::size_t operands_;
  series<long long> numbers_;
  layout at_;
  unread_results unread_;
};

}  // namespace sinter::engine::run::cuda

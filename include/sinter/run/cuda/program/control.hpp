// run/cuda/program/control.hpp: branches, loops and the user's kernels on a GPU: the host asks for each step, or a recorded call has them.
#pragma once

#include "../../control.hpp"
#include "../device/copy.hpp"
#include "program.hpp"
#include "tape.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// What branches and loops do on one stream.
struct part_runner {
  queue& q;
  const long* sizes;

  void copy(void* to, const void* from, std::int64_t bytes) const {
    if (bytes > 0)
      check(driver().copy_within(address_of(to), address_of(from), static_cast<std::size_t>(bytes), q.handle),
            "copying on the GPU");
  }
  /// Waits for everything that the stream was asked before.
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
      : parts_{std::move(no), std::move(yes)}, operands_(operands) {
    layout at;
    for (auto n : result_bytes) unread_.push_back(at.add(n));
    part_ = at.add(std::max(parts_[0].scratch_bytes, parts_[1].scratch_bytes));
    bytes_ = at.bytes();
  }
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    const detail::part_runner machine{q, sizes};
    branch_buffers given(buffers, operands_, unread_, scratch);
    machine.run(parts_[machine.read(buffers[0])], given, scratch + part_);
  }
  std::int64_t scratch_bytes() const override { return bytes_; }

  std::int64_t nodes() const override {
    return sum_of_nodes(sum_of_nodes(3, 1, nodes_of(parts_[0])), 1, nodes_of(parts_[1]));
  }
  std::span<const sequence> parts() const override { return parts_; }
  void record(void* const* buffers, char* scratch, tape& t) const override {
    branch_buffers given(buffers, operands_, unread_, scratch);
    const api::condition conditions[] = {t.condition(), t.condition()};
    t.choose(buffers[0], conditions[1], conditions[0]);
    t.side_by_side(2, [&](std::size_t k) {
      t.body(api::conditional_if, conditions[k], [&] { t.steps(parts_[k], given, scratch + part_); });
    });
  }

 private:
  sequence parts_[2];
  std::size_t operands_;
  series<std::int64_t> unread_;
  std::int64_t part_ = 0, bytes_ = 0;
};

class loop final : public routine {
 public:
  loop(sequence body, loop_shape shape)
      : body_(std::move(body)), shape_(std::move(shape)), at_(shape_, body_.scratch_bytes) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    struct : detail::part_runner {
      const sequence* steps;
      void body(std::span<void* const> given, char* at) const { run(*steps, given, at); }
    } const machine{{q, sizes}, &body_};
    run_loop(shape_, at_, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return at_.bytes; }

  std::int64_t nodes() const override {
    return sum_of_nodes(static_cast<std::int64_t>(shape_.carried.size()), shape_.length, nodes_of(body_));
  }
  std::span<const sequence> parts() const override { return {&body_, 1}; }
  /// One step after another: kernels have the index, and where the slices are, as parameters.
  void record(void* const* buffers, char* scratch, tape& t) const override {
    struct {
      tape& t;
      const sequence& steps;
      void copy(void* to, const void* from, std::int64_t bytes) const { t.copy(to, from, bytes); }
      void body(std::span<void* const> given, char* at) const { t.steps(steps, given, at); }
    } const machine{t, body_};
    run_loop(shape_, at_, buffers, scratch, machine);
  }

 private:
  sequence body_;
  loop_shape shape_;
  loop_scratch at_;
};

class while_loop final : public routine {
 public:
  while_loop(sequence test, sequence body, series<std::int64_t> carried, std::size_t constants)
      : parts_{std::move(test), std::move(body)},
        carried_(std::move(carried)),
        constants_(constants),
        at_(carried_, std::max(parts_[0].scratch_bytes, parts_[1].scratch_bytes)) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    struct : detail::part_runner {
      const sequence *tested, *steps;
      bool test(std::span<void* const> given, char* at) const {
        run(*tested, given, at);
        return read(given.back());
      }
      void body(std::span<void* const> given, char* at) const { run(*steps, given, at); }
    } const machine{{q, sizes}, &parts_[0], &parts_[1]};
    run_while(carried_, constants_, at_, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return at_.bytes; }

  std::int64_t nodes() const override {
    const auto copies = static_cast<std::int64_t>(3 * carried_.size());
    return sum_of_nodes(sum_of_nodes(copies + 3, 2, nodes_of(parts_[0])), 1, nodes_of(parts_[1]));
  }
  std::span<const sequence> parts() const override { return parts_; }
  /// What is carried is in the first of its two places whenever the test is made: a graph's addresses are the same at each turn.
  void record(void* const* buffers, char* scratch, tape& t) const override {
    const std::size_t carried = carried_.size(), operands = carried + constants_;
    address_list tested(operands + 1), given(operands + carried);
    for (std::size_t k = 0; k < operands; ++k)
      tested[k] = given[k] = k < carried ? scratch + at_.turns[0][k] : buffers[k];
    for (std::size_t k = 0; k < carried; ++k) given[operands + k] = scratch + at_.turns[1][k];
    tested[operands] = scratch + at_.test;
    const api::condition again = t.condition();
    const auto test = [&] {
      t.steps(parts_[0], tested, scratch + at_.part);
      t.choose(tested[operands], again, again);
    };
    t.side_by_side(carried, [&](std::size_t k) { t.copy(given[k], buffers[k], carried_[k]); });
    test();
    t.body(api::conditional_while, again, [&] {
      t.steps(parts_[1], given, scratch + at_.part);
      t.side_by_side(carried, [&](std::size_t k) { t.copy(given[k], given[operands + k], carried_[k]); });
      test();
    });
    t.side_by_side(carried, [&](std::size_t k) {
      if (buffers[operands + k]) t.copy(buffers[operands + k], given[k], carried_[k]);
    });
  }

 private:
  sequence parts_[2];  ///< the test, the body
  series<std::int64_t> carried_;
  std::size_t constants_;
  while_scratch at_;
};

/// A kernel of the user: its parameters are the addresses of operands and results, then `numbers`.
class user_kernel final : public routine {
 public:
  user_kernel(step launch, std::size_t operands, series<std::int64_t> result_bytes, series<long long> numbers)
      : operands_(operands), numbers_(std::move(numbers)) {
    launch_.steps.push_back(std::move(launch));
    layout at;
    for (auto n : result_bytes) unread_.push_back(at.add(n));
    bytes_ = at.bytes();
  }
  void run(void* const* buffers, char* scratch, const long*, queue& q) const override {
    with_parameters(buffers, scratch, [&](const step& s, void** parameters, std::span<void* const>) {
      detail::launch(s, parameters, q, driver());
    });
  }
  std::int64_t scratch_bytes() const override { return bytes_; }

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
    for (std::size_t k = 0; k < unread_.size(); ++k)
      if (addresses[operands_ + k] == nullptr) addresses[operands_ + k] = scratch + unread_[k];
    for (std::size_t k = 0; k < count; ++k) parameters[k] = &addresses[k];
    for (std::size_t k = 0; k < numbers_.size(); ++k) parameters[count + k] = const_cast<long long*>(&numbers_[k]);
    f(launch_.steps[0], parameters.data(), addresses);
  }

  sequence launch_;  ///< of one step, whose operands are the routine's
  std::size_t operands_;
  series<long long> numbers_;
  series<std::int64_t> unread_;
  std::int64_t bytes_ = 0;
};

}  // namespace sinter::engine::run::cuda

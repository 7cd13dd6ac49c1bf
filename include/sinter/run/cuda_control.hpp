// run/cuda_control.hpp: branches, loops and the user's kernels on a GPU; the host asks for each step and the stream keeps the order.
#pragma once

#include "control.hpp"
#include "cuda_copy.hpp"
#include "cuda_program.hpp"

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

 private:
  sequence body_;
  loop_shape shape_;
  loop_scratch at_;
};

class while_loop final : public routine {
 public:
  while_loop(sequence test, sequence body, series<std::int64_t> carried, std::size_t constants)
      : test_(std::move(test)),
        body_(std::move(body)),
        carried_(std::move(carried)),
        constants_(constants),
        at_(carried_, std::max(test_.scratch_bytes, body_.scratch_bytes)) {}
  void run(void* const* buffers, char* scratch, const long* sizes, queue& q) const override {
    struct : detail::part_runner {
      const sequence *tested, *steps;
      bool test(std::span<void* const> given, char* at) const {
        run(*tested, given, at);
        return read(given.back());
      }
      void body(std::span<void* const> given, char* at) const { run(*steps, given, at); }
    } const machine{{q, sizes}, &test_, &body_};
    run_while(carried_, constants_, at_, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return at_.bytes; }

 private:
  sequence test_, body_;
  series<std::int64_t> carried_;
  std::size_t constants_;
  while_scratch at_;
};

/// A kernel of the user: its parameters are the addresses of operands and results, then `numbers`.
class user_kernel final : public routine {
 public:
  user_kernel(step launch, std::size_t operands, series<std::int64_t> result_bytes, series<long long> numbers)
      : launch_(std::move(launch)), operands_(operands), numbers_(std::move(numbers)) {
    layout at;
    for (auto n : result_bytes) unread_.push_back(at.add(n));
    bytes_ = at.bytes();
  }
  void run(void* const* buffers, char* scratch, const long*, queue& q) const override {
    if (launch_.blocks == 0) return;
    const std::size_t count = operands_ + unread_.size();
    address_list addresses(count), parameters(count + numbers_.size());
    std::copy_n(buffers, count, addresses.data());
    for (std::size_t k = 0; k < unread_.size(); ++k)
      if (addresses[operands_ + k] == nullptr) addresses[operands_ + k] = scratch + unread_[k];
    for (std::size_t k = 0; k < count; ++k) parameters[k] = &addresses[k];
    for (std::size_t k = 0; k < numbers_.size(); ++k) parameters[count + k] = const_cast<long long*>(&numbers_[k]);
    detail::launch(launch_, parameters.data(), q, driver());
  }
  std::int64_t scratch_bytes() const override { return bytes_; }

 private:
  step launch_;
  std::size_t operands_;
  series<long long> numbers_;
  series<std::int64_t> unread_;
  std::int64_t bytes_ = 0;
};

}  // namespace sinter::engine::run::cuda

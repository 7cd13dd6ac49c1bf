// run/host/control.hpp: branches and loops on the host.
#pragma once

#include <cstring>

#include "../control.hpp"
#include "program.hpp"

namespace sinter::engine::run {

namespace detail {

inline void copy_on_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace detail

class host_branch final : public routine {
 public:
  host_branch(sequence yes, sequence no, std::size_t operands, const series<std::int64_t>& result_bytes)
      : parts_{std::move(no), std::move(yes)}, operands_(operands) {
    layout at;
    for (auto n : result_bytes) unread_.push_back(at.add(n));
    part_ = at.add(std::max(parts_[0].scratch_bytes, parts_[1].scratch_bytes));
    bytes_ = at.bytes();
  }
  void run(void* const* buffers, char* scratch, const long* sizes) const override {
    branch_buffers given(buffers, operands_, unread_, scratch);
    execute_in(parts_[*static_cast<const bool*>(buffers[0])], given, scratch + part_, sizes);
  }
  std::int64_t scratch_bytes() const override { return bytes_; }

 private:
  sequence parts_[2];
  std::size_t operands_;
  series<std::int64_t> unread_;
  std::int64_t part_ = 0, bytes_ = 0;
};

class host_loop final : public routine {
 public:
  host_loop(sequence body, loop_shape shape)
      : body_(std::move(body)), shape_(std::move(shape)), at_(shape_, body_.scratch_bytes) {}
  void run(void* const* buffers, char* scratch, const long* sizes) const override {
    struct {
      const sequence& steps;
      const long* sizes;
      void copy(void* to, const void* from, std::int64_t bytes) const { detail::copy_on_host(to, from, bytes); }
      void body(std::span<void* const> given, char* at) const { execute_in(steps, given, at, sizes); }
    } const machine{body_, sizes};
    run_loop(shape_, at_, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return at_.bytes; }

 private:
  sequence body_;
  loop_shape shape_;
  loop_scratch at_;
};

class host_while final : public routine {
 public:
  host_while(sequence test, sequence body, series<std::int64_t> carried, std::size_t constants)
      : test_(std::move(test)),
        body_(std::move(body)),
        carried_(std::move(carried)),
        constants_(constants),
        at_(carried_, std::max(test_.scratch_bytes, body_.scratch_bytes)) {}
  void run(void* const* buffers, char* scratch, const long* sizes) const override {
    struct {
      const sequence &tested, &steps;
      const long* sizes;
      void copy(void* to, const void* from, std::int64_t bytes) const { detail::copy_on_host(to, from, bytes); }
      bool test(std::span<void* const> given, char* at) const {
        execute_in(tested, given, at, sizes);
        return *static_cast<const bool*>(given.back());
      }
      void body(std::span<void* const> given, char* at) const { execute_in(steps, given, at, sizes); }
    } const machine{test_, body_, sizes};
    run_while(carried_, constants_, at_, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return at_.bytes; }

 private:
  sequence test_, body_;
  series<std::int64_t> carried_;
  std::size_t constants_;
  while_scratch at_;
};

}  // namespace sinter::engine::run

// run/host/control.hpp: branches, calls and loops on the host.
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
      : branch_(std::move(yes), std::move(no), operands, result_bytes) {}
  void run(void* const* buffers, char* scratch, const long* sizes) const override {
    branch_of<sequence>::given given(branch_, buffers, scratch);
    execute_in(branch_.parts[*static_cast<const bool*>(buffers[0])], given, scratch + branch_.part, sizes);
  }
  std::int64_t scratch_bytes() const override { return branch_.bytes; }

 private:
  branch_of<sequence> branch_;
};

class host_part final : public routine {
 public:
  host_part(sequence part, std::size_t operands, const series<std::int64_t>& result_bytes)
      : call_(std::move(part), operands, result_bytes) {}
  void run(void* const* buffers, char* scratch, const long* sizes) const override {
    call_of<sequence>::given given(call_, buffers, scratch);
    execute_in(call_.part, given, scratch + call_.inside, sizes);
  }
  std::int64_t scratch_bytes() const override { return call_.bytes; }

 private:
  call_of<sequence> call_;
};

class host_loop final : public routine {
 public:
  host_loop(sequence body, loop_shape shape) : loop_(std::move(body), std::move(shape)) {}
  void run(void* const* buffers, char* scratch, const long* sizes) const override {
    struct {
      const sequence& steps;
      const long* sizes;
      void copy(void* to, const void* from, std::int64_t bytes) const { detail::copy_on_host(to, from, bytes); }
      void body(std::span<void* const> given, char* at) const { execute_in(steps, given, at, sizes); }
    } const machine{loop_.body, sizes};
    run_loop(loop_.shape, loop_.at, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return loop_.at.bytes; }

 private:
  loop_of<sequence> loop_;
};

class host_while final : public routine {
 public:
  host_while(sequence test, sequence body, series<std::int64_t> carried, series<char> in_place, std::size_t constants)
      : while_(std::move(test), std::move(body), std::move(carried), std::move(in_place), constants) {}
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
    } const machine{while_.parts[0], while_.parts[1], sizes};
    run_while(while_.carried, while_.in_place, while_.constants, while_.at, buffers, scratch, machine);
  }
  std::int64_t scratch_bytes() const override { return while_.at.bytes; }

 private:
  while_of<sequence> while_;
};

}  // namespace sinter::engine::run

// tests/emulator/block.hpp: one thread block: its threads as fibers, its barriers, its warps' exchanges.
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <execinfo.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

struct uint3 {
  unsigned x, y, z;
};

/// As device.hpp declares it.
struct sinter_thread {
  uint3 thread, block, block_dim, grid_dim;
  int lane;
  char* dynamic_shared;
  int (*barrier)(int line, int value);
  const unsigned long long* (*exchange)(unsigned mask, int line, unsigned long long value);
  unsigned (*active)();
  void (*stop)(int why, int line);
  void (*await)();
  void (*choose)(unsigned long long handle, unsigned value);
};

using entry_function = void(void** parameters);

#if defined(__x86_64__)
extern "C" void sinter_switch(void** save, void* load);
asm(R"(
.text
.p2align 4
.type sinter_switch, @function
sinter_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sinter_switch, .-sinter_switch
)");
#endif

enum class wait : unsigned char { ready, block, warp, grids, done };

struct fiber {
#if defined(__x86_64__)
  void* sp = nullptr;
#else
  ucontext_t context{};
#endif
  bool started = false;
  wait state = wait::ready;
  int line = 0, value = 0;
  unsigned mask = 0;
  unsigned long long given = 0;
  const unsigned long long* seen = nullptr;
};

/// What ended a kernel: a CUDA result, and words for the log.
struct fault {
  int result = 0;
  std::string what;
};

/// Runs blocks one after another on this thread.
class machine {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{128} << 10;
  static constexpr std::size_t max_threads = 1024;

  machine() {
    void* const p = ::mmap(nullptr, stack_bytes * max_threads, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks_ = static_cast<char*>(p);
    // The lowest page of each stack is out of bounds.
    for (std::size_t i = 0; i < max_threads; ++i) ::mprotect(stacks_ + i * stack_bytes, 4096, PROT_NONE);
    fibers_.resize(max_threads);
    dynamic_.resize(std::size_t{256} << 10);
    here.barrier = [](int line, int value) { return current_->at_barrier(line, value); };
    here.exchange = [](unsigned mask, int line, unsigned long long value) {
      return current_->at_exchange(mask, line, value);
    };
    here.active = [] { return current_->lanes_alive(); };
    here.stop = [](int why, int line) { current_->stop(why, line); };
    here.await = [] { current_->await(); };
    here.choose = [](unsigned long long handle, unsigned value) { current_->chosen.emplace_back(handle, value); };
  }

  /// Takes a grid on; run() runs it.
  void take(entry_function* entry, void** parameters, uint3 grid, uint3 block, char* shared_begin, char* shared_end,
            bool reverse) {
    reverse_ = reverse;
    threads_ = std::size_t{block.x} * block.y * block.z;
    entry_ = entry;
    parameters_ = parameters;
    here.grid_dim = grid;
    here.block_dim = block;
    here.dynamic_shared = dynamic_.data() + (1024 - reinterpret_cast<std::uintptr_t>(dynamic_.data()) % 1024) % 1024;
    problem_ = {};
    chosen.clear();
    shared_begin_ = shared_begin;
    shared_end_ = shared_end;
    next_ = 0;
    inside_ = false;
  }

  /// Runs every block of the grid; `early`, until threads of one wait for earlier grids. What goes wrong ends it.
  fault run(bool early) {
    current_ = this;
    early_ = early;
    const uint3 grid = here.grid_dim;
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    if (inside_ && shared_begin_ != shared_end_) std::memcpy(shared_begin_, shared_.data(), shared_.size());
    for (; next_ < blocks && problem_.result == 0; ++next_) {
      if (!inside_) begin_block(reverse_ ? blocks - 1 - next_ : next_);
      inside_ = !run_block();
      if (!inside_) continue;
      shared_.assign(shared_begin_, shared_end_);
      break;
    }
    return problem_;
  }

  sinter_thread here{};
  std::vector<std::pair<unsigned long long, unsigned>> chosen;  ///< conditions that the kernel set
  std::size_t dynamic_used = 0;

 private:
  void begin_block(std::uint64_t b) {
    const uint3 grid = here.grid_dim;
    here.block = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                  static_cast<unsigned>(b / grid.x / grid.y)};
    if (shared_begin_ != shared_end_)
      std::memset(shared_begin_, 0xCB, static_cast<std::size_t>(shared_end_ - shared_begin_));
    std::memset(dynamic_.data(), 0xCB, std::min<std::size_t>(dynamic_.size(), dynamic_used));
    for (std::size_t t = 0; t < threads_; ++t) {
      fibers_[t].started = false;
      fibers_[t].state = wait::ready;
    }
  }

  /// False when threads wait for earlier grids.
  bool run_block() {
    for (std::size_t t = 0; t < threads_; ++t)
      if (inside_ && fibers_[t].state == wait::grids) fibers_[t].state = wait::ready;
    for (std::size_t left = threads_; left > 0 && problem_.result == 0;) {
      for (std::size_t i = 0; i < threads_; i += 32) run_warp(reverse_ ? (threads_ - 1) / 32 * 32 - i : i);
      left = 0;
      std::size_t waiting = 0;
      int line = 0, sum = 0;
      bool together = true;
      for (std::size_t t = 0; t < threads_; ++t) {
        const fiber& f = fibers_[t];
        if (f.state == wait::grids) return false;
        if (f.state == wait::done) continue;
        ++left;
        if (f.state != wait::block) continue;
        together &= waiting == 0 || f.line == line;
        line = f.line;
        sum += f.value;
        ++waiting;
      }
      if (left == 0 || problem_.result != 0) return true;
      if (waiting != left || !together) return diverged(left), true;
      for (std::size_t t = 0; t < threads_; ++t)
        if (fibers_[t].state == wait::block) {
          fibers_[t].value = sum;
          fibers_[t].state = wait::ready;
        }
    }
    return true;
  }

  /// Runs a warp until each of its lanes is done or at the block's barrier.
  void run_warp(std::size_t first) {
    const std::size_t end = std::min(first + 32, threads_);
    for (bool going = true; going && problem_.result == 0;) {
      going = false;
      for (std::size_t i = first; i < end && problem_.result == 0; ++i) {
        const std::size_t t = reverse_ ? end - 1 - (i - first) : i;
        if (fibers_[t].state == wait::ready) resume(t);
      }
      for (std::size_t t = first; t < end; ++t)
        if (fibers_[t].state == wait::warp && release(first, end, fibers_[t])) going = true;
    }
  }

  /// Lets the lanes of one exchange go on when all are there.
  bool release(std::size_t first, std::size_t end, const fiber& asker) {
    const unsigned mask = asker.mask;
    const int line = asker.line;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1)) continue;
      if (first + lane >= end) return false;
      const fiber& f = fibers_[first + lane];
      if (f.state != wait::warp || f.mask != mask || f.line != line) return false;
    }
    unsigned long long* const values = exchanged_[turn_++ % 64];
    for (unsigned lane = 0; lane < 32; ++lane) {
      values[lane] = mask >> lane & 1 ? fibers_[first + lane].given : 0xCBCBCBCBCBCBCBCBull;
      if (mask >> lane & 1) {
        fibers_[first + lane].seen = values;
        fibers_[first + lane].state = wait::ready;
      }
    }
    return true;
  }

  void diverged(std::size_t left) {
    std::string at;
    for (std::size_t t = 0; t < threads_ && at.size() < 200; ++t) {
      const fiber& f = fibers_[t];
      if (f.state == wait::block) at += " " + std::to_string(t) + "@barrier:" + std::to_string(f.line);
      if (f.state == wait::warp) at += " " + std::to_string(t) + "@warp" + std::to_string(f.line);
    }
    problem_ = {719, "barrier divergence: " + std::to_string(left) + " threads wait for ones that never come:" + at};
  }

  int at_barrier(int line, int value) {
    fiber& f = fibers_[running_];
    f.state = wait::block;
    f.line = line;
    f.value = value;
    yield();
    return fibers_[running_].value;
  }
  const unsigned long long* at_exchange(unsigned mask, int line, unsigned long long value) {
    fiber& f = fibers_[running_];
    if (!(mask >> (running_ % 32) & 1)) stop(2, line);
    f.state = wait::warp;
    f.line = line;
    f.mask = mask;
    f.given = value;
    yield();
    return fibers_[running_].seen;
  }
  void await() {
    if (!early_) return;
    fibers_[running_].state = wait::grids;
    yield();
  }
  unsigned lanes_alive() const {
    unsigned out = 0;
    const std::size_t first = running_ / 32 * 32;
    for (std::size_t t = first; t < std::min(first + 32, threads_); ++t)
      if (fibers_[t].state != wait::done) out |= 1u << (t - first);
    return out;
  }
  void stop(int why, int line) {
    problem_ = {719,
                why == 1
                    ? "a trap"
                    : "a lane takes part in an exchange that does not name it, or reads from one that is not named (" +
                          std::to_string(line) + ")"};
    fibers_[running_].state = wait::done;
    yield();
  }

  void enter() {
    const unsigned t = static_cast<unsigned>(running_);
    const uint3 d = here.block_dim;
    here.thread = {t % d.x, t / d.x % d.y, t / d.x / d.y};
    here.lane = static_cast<int>(t % 32);
  }
  static void body() {
    machine& m = *current_;
    m.entry_(m.parameters_);
    m.fibers_[m.running_].state = wait::done;
    m.yield();
  }

#if defined(__x86_64__)
  void resume(std::size_t t) {
    fiber& f = fibers_[t];
    if (!f.started) {
      f.started = true;
      // As if body() had been called with nowhere to return to: the stack is 8 off a multiple of 16.
      void** top = reinterpret_cast<void**>(stacks_ + (t + 1) * stack_bytes - 64);
      *--top = nullptr;
      *--top = reinterpret_cast<void*>(&machine::body);
      for (int i = 0; i < 6; ++i) *--top = nullptr;
      f.sp = top;
    }
    running_ = t;
    enter();
    sinter_switch(&main_sp_, f.sp);
  }
  void yield() { sinter_switch(&fibers_[running_].sp, main_sp_); }
  void* main_sp_ = nullptr;
#else
  void resume(std::size_t t) {
    fiber& f = fibers_[t];
    if (!f.started) {
      f.started = true;
      ::getcontext(&f.context);
      f.context.uc_stack.ss_sp = stacks_ + t * stack_bytes + 4096;
      f.context.uc_stack.ss_size = stack_bytes - 4096;
      f.context.uc_link = nullptr;
      ::makecontext(&f.context, &machine::body, 0);
    }
    running_ = t;
    enter();
    ::swapcontext(&main_, &f.context);
  }
  void yield() { ::swapcontext(&fibers_[running_].context, &main_); }
  ucontext_t main_{};
#endif

  static inline thread_local machine* current_ = nullptr;
  char* stacks_ = nullptr;
  std::vector<fiber> fibers_;
  std::vector<char> dynamic_;
  unsigned long long exchanged_[64][32] = {};
  unsigned turn_ = 0;
  std::size_t threads_ = 0, running_ = 0;
  entry_function* entry_ = nullptr;
  void** parameters_ = nullptr;
  fault problem_;
  bool reverse_ = false, early_ = false;
  char *shared_begin_ = nullptr, *shared_end_ = nullptr;
  std::vector<char> shared_;  ///< the static shared memory of a block that waits
  std::uint64_t next_ = 0;    ///< block
  bool inside_ = false;       ///< of that block, which has begun
};

/// Runs f; an access outside of memory, or an instruction that a sanitizer placed, ends it: then the signal's number.
template <class F>
int guarded(F&& f) {
  static thread_local sigjmp_buf back;
  static thread_local bool inside = false;
  struct sigaction action {
  }, before[4];
  constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  std::vector<char> stack(std::size_t{64} << 10);
  stack_t alternative{}, previous{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  ::sigaltstack(&alternative, &previous);
  action.sa_handler = [](int number) {
    if (inside) siglongjmp(back, number);
    // A fault of the host's own code.
    void* frames[64];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), 2);
    ::signal(number, SIG_DFL);
    ::raise(number);
  };
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 4; ++i) ::sigaction(signals[i], &action, &before[i]);
  const int caught = sigsetjmp(back, 1);
  if (caught == 0) {
    inside = true;
    f();
  }
  inside = false;
  for (int i = 0; i < 4; ++i) ::sigaction(signals[i], &before[i], nullptr);
  ::sigaltstack(&previous, nullptr);
  return caught;
}

}  // namespace emulator

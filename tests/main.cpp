// tests/main.cpp: the entry point of every test executable.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "emulator/select.hpp"
#include "sanitizers.hpp"

#if SINTER_TEST_ADDRESS_SANITIZER
/// Background threads are never joined where a process forks or exits: what they hold is no leak; nor what a forked process's
/// OpenMP has of its parent's threads.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:sinter::engine::run::background\nleak:__cxa_thread_atexit_impl\nleak:libomp.so\n";
}
#endif
#if SINTER_TEST_THREAD_SANITIZER
/// Threads that close libraries hand memory to each other under the loader's lock, which the sanitizer does not see.
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:ld-linux\n"; }
#endif

namespace {

unsigned cases_run = 0;

struct counter : doctest::IReporter {
  explicit counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& all) override { cases_run = all.numTestCasesPassingFilters; }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
DOCTEST_REGISTER_LISTENER("counter", 1, counter);

}  // namespace

int main(int argc, char** argv) {
  if (const int result = emulator::select(); result != 0) return result;
  doctest::Context context(argc, argv);
  const int failed = context.run();
  if (context.shouldExit()) return failed;
  // A filter that matches nothing would otherwise pass.
  if (cases_run == 0) {
    std::fputs("no test case matches the filter\n", stderr);
    return 1;
  }
  return failed;
}

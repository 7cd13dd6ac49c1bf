// tests/sanitizers.hpp: which sanitizers the tests are built with: g++ and clang++ tell it differently.
#pragma once

#if !defined(__has_feature)  // g++
#define __has_feature(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SINTER_TEST_ADDRESS_SANITIZER 1
#else
#define SINTER_TEST_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SINTER_TEST_THREAD_SANITIZER 1
#else
#define SINTER_TEST_THREAD_SANITIZER 0
#endif

/// They reserve more addresses than a limit would leave.
#if SINTER_TEST_ADDRESS_SANITIZER || SINTER_TEST_THREAD_SANITIZER
#define SINTER_TEST_MANY_ADDRESSES 1
#else
#define SINTER_TEST_MANY_ADDRESSES 0
#endif

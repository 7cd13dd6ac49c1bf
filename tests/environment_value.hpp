// A variable of the environment, as it was before when the scope ends.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

class environment_value {
 public:
  environment_value(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  environment_value(const environment_value&) = delete;
  environment_value& operator=(const environment_value&) = delete;
  ~environment_value() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// Loads libraries, each with an engine of its own, for all to see; calls and closes them, again and again.
//   load LIBRARY...
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <vector>

int main(int count, char** names) {
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> loaded;
    for (int k = 1; k < count; ++k) {
      void* const library = ::dlopen(names[k], RTLD_NOW | RTLD_GLOBAL);
      if (!library) return std::printf("%s\n", ::dlerror()), 1;
      loaded.push_back(library);
      for (const char* name : {"in_background", "of_frequent_extents", "at_once", "of_a_class"}) {
        auto* const entry = reinterpret_cast<float (*)(float)>(::dlsym(library, name));
        const float expected = name == std::string_view("of_a_class") ? 0.0f : 4.25f;
        if (const float got = entry(0.0f); got != expected)
          return std::printf("%s of %s is %g, not %g\n", name, names[k], static_cast<double>(got),
                             static_cast<double>(expected)),
                 2;
      }
    }
    // Their order, and on the second round the other one.
    for (std::size_t k = 0; k < loaded.size(); ++k) ::dlclose(loaded[round % 2 ? loaded.size() - 1 - k : k]);
    ::usleep(300'000);  // a job that goes on meets what is gone
  }
  return 0;
}

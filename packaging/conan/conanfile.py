"""A recipe of the checkout it stands in: conan create packaging/conan"""
import os

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class sinter(ConanFile):
    name = "sinter"
    description = "A header-only C++20 DSL of tensor programs with staged kernel generation for CPUs and NVIDIA GPUs"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def set_version(self):
        lines = load(self, os.path.join(self.recipe_folder, "..", "..", "include", "sinter", "base", "config.hpp"))
        self.version = next(line.split('"')[1] for line in lines.splitlines() if line.startswith("#define SINTER_VERSION"))

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "cmake/*", "include/*", "LICENSE"):
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        for need in ("boost/[>=1.74]", "nlohmann_json/[>=3.10]", "xsimd/[>=8]"):
            self.requires(need, transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH", "PROGRAMS"):
            toolchain.cache_variables[f"SINTER_{part}"] = False
        for name, need in (("BOOST", "boost"), ("XSIMD", "xsimd"), ("JSON", "nlohmann_json")):
            toolchain.cache_variables[f"SINTER_{name}_INCLUDE_DIR"] = self.dependencies[need].cpp_info.includedirs[0]
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # find_package(sinter) finds the package's own file, which knows the targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/sinter"]

// NVRTC, opened at run time: CUDA C++ text to cubin and PTX in this process, with or without a GPU.
#pragma once

#include <string>
#include <vector>

#include "core/dynlib.h"
#include "iron/types.h"

namespace iron::runtime::cuda {

struct Compiled {
  std::vector<char> cubin;
  std::string ptx;
  std::string log;  ///< the compiler's and ptxas' messages, with registers and spills
};

class Nvrtc {
 public:
  /// The library of this process: $IRON_NVRTC, libnvrtc.so.13 or .12, a CUDA toolkit, or Python's nvidia packages.
  /// Throws iron::Error (CUDA01) with every place that was tried.
  static const Nvrtc& get();
  /// The same, as a question; `why` receives the reason.
  static bool available(std::string* why = nullptr);

  int major() const { return major_; }
  int minor() const { return minor_; }
  const std::string& path() const { return library_.path(); }
  const std::vector<int>& architectures() const { return architectures_; }  ///< 75, 80, ..., as numbers

  /// Throws CUDA02 when NVRTC does not know the architecture, CUDA03 with the log and the text when the text does not
  /// compile.
  Compiled compile(const std::string& text, const std::string& name, const std::string& arch,
                   const std::vector<std::string>& options) const;

 private:
  Nvrtc();
  struct Api;
  DynamicLibrary library_;
  const Api* api_;
  int major_ = 0, minor_ = 0;
  std::vector<int> architectures_;
};

}  // namespace iron::runtime::cuda

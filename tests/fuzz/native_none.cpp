// No machine code: built without the CPU device.
#include "native.h"

namespace iron::fuzz {

std::vector<std::string> native_targets() { return {}; }
void run_native(const ir::Kernel&, const Subject&, Memory&, std::string_view target) {
  throw Error("FUZZ02", "no target '" + std::string(target) + "': this build has no CPU device");
}

}  // namespace iron::fuzz

// The JSON lines that a program reads from the tool: start, one a result, errors, done.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/backend.h"

namespace iron::tool {

using Json = nlohmann::ordered_json;

/// A hash of the running program: two outputs with one id come from one build.
std::string build_id();

/// Prints one message a line if wanted, and the last one also to the file that IRON_RESULT_FILE names.
class Messages {
 public:
  explicit Messages(bool wanted) : wanted_(wanted) {}
  void start(const std::string& command, std::size_t total, const runtime::DeviceInfo* device);
  void send(const Json& message) const;
  void error(const std::string& name, const std::string& dtype, const std::string& text) const;
  /// The last message, with counts: it says "type": "done".
  void done(const Json& counts) const;

 private:
  bool wanted_;
};

Json to_json(const runtime::DeviceInfo& info);

/// A number with at most three decimals; null if it is not finite or absent.
Json rounded(double value);

/// "cpu" where it is built in, else "interpreter".
std::string default_backend();
/// The type of `--backend`, with its default.
std::string backend_help();
/// Throws UsageError for a name that no build has; a backend that cannot start throws iron::Error.
runtime::Backend& open_backend(const std::string& name);

/// The whole of a file; throws iron::Error (TOOL01).
std::string read_file(const std::string& path);
/// Writes it whole, making the folders above; throws iron::Error (TOOL02).
void write_file(const std::string& path, const std::string& text);

}  // namespace iron::tool

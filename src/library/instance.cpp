// Kernels whose type is known only at run time.
#include "iron/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace iron {

namespace {

/// "a=1,b={c=2,d=3}" in parts; false where braces do not match or a part has no '='.
bool split(std::string_view text, std::vector<std::pair<std::string_view, std::string_view>>& parts) {
  while (!text.empty()) {
    std::size_t end = 0;
    for (int depth = 0; end < text.size() && (depth != 0 || text[end] != ','); ++end) {
      depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      if (depth < 0) return false;
    }
    const auto part = text.substr(0, end);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) return false;
    parts.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

const detail::NamedField* find_field(const std::vector<detail::NamedField>& fields, std::string_view name) {
  const auto it = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; });
  return it == fields.end() ? nullptr : &*it;
}

/// "head_dim=64, causal=true": the specialisation fields with the values they have.
std::string spec_fields(const std::vector<detail::NamedField>& fields) {
  std::string text;
  for (const auto& f : fields) {
    if (f.ops->kind != detail::FieldOps::Kind::spec && !f.ops->optional) continue;
    text += (text.empty() ? "" : ", ") + std::string(f.name) + "=";
    text += f.ops->optional ? (f.ops->present(f.at) ? "present" : "absent") : f.ops->text(f.at);
  }
  return text.empty() ? "it has none" : "it has " + text;
}

bool set_field(const detail::NamedField& f, std::string_view value) {
  if (f.ops->parse) return f.ops->parse(f.at, value);
  if (!f.ops->optional) return false;
  if (value == "present") {
    f.ops->bind(f.at, BufferRef{});
  } else {
    f.ops->leave_out(f.at);
  }
  return value == "present" || value == "absent";
}

}  // namespace

namespace detail {

bool parse_members(const std::vector<NamedField>& members, std::string_view text) {
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return false;
  std::vector<std::pair<std::string_view, std::string_view>> parts;
  if (!split(text.substr(1, text.size() - 2), parts)) return false;
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
    const auto* f = find_field(members, part.first);
    return f && set_field(*f, part.second);
  });
}

bool parse_number(std::string_view text, f64& value) {
  const std::string copy(text);
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  return !copy.empty() && *end == 0 && std::isfinite(value);
}

void refuse_grid() {
  throw Error("D03", "the kernel does not know its grid from its arguments",
              "state the threadgroups and their threads");
}

}  // namespace detail

const detail::NamedField* KernelInstance::find(std::string_view name) const { return find_field(fields_, name); }

std::vector<detail::NamedField> KernelInstance::parameters() const {
  std::vector<detail::NamedField> out;
  for (const auto& f : fields_)
    if (f.ops->kind != Kind::spec && (!f.ops->optional || f.ops->present(f.at))) out.push_back(f);
  return out;
}

void KernelInstance::specialise(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> parts;
  if (!split(text, parts))
    throw Error("SPEC02", fmt::format("'{}' is not a specialisation", text), "write name=value,name=value");
  for (const auto& [name, value] : parts) {
    const auto* f = find(name);
    if (!f || (f->ops->kind != Kind::spec && !f->ops->optional))
      throw Error("SPEC01", fmt::format("the kernel has no specialisation field '{}'", name), spec_fields(fields_));
    if (!set_field(*f, value))
      throw Error("SPEC02", fmt::format("'{}' is no value that '{}' can take", value, name), spec_fields(fields_));
  }
}

}  // namespace iron

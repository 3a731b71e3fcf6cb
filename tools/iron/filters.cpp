#include "filters.h"

#include <fnmatch.h>

#include <algorithm>
#include <regex>

namespace iron::tool {

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::regex> regexes(const std::vector<std::string>& texts, const char* flag) {
  std::vector<std::regex> out;
  for (const auto& text : texts) try {
      out.emplace_back(text, std::regex::ECMAScript);
    } catch (const std::regex_error& e) {
      throw UsageError(fmt::format("{} '{}' is not a regular expression: {}", flag, text, e.what()));
    }
  return out;
}

void check_glob(const std::string& glob, const char* flag) {
  int open = 0;
  for (std::size_t i = 0; i < glob.size(); ++i) {
    if (glob[i] == '\\') {  // what is behind it stands for itself
      ++i;
      if (i >= glob.size()) throw UsageError(fmt::format("{} '{}' is not a glob: it ends in a backslash", flag, glob));
      continue;
    }
    if (glob[i] == '[') ++open;
    if (glob[i] == ']' && open) --open;
  }
  if (open) throw UsageError(fmt::format("{} '{}' is not a glob: '[' is not closed", flag, glob));
}

// A glob that names a folder means everything below it.
bool path_matches(const std::string& glob, const std::string& file) {
  if (fnmatch(glob.c_str(), file.c_str(), 0) == 0) return true;
  const std::string below = glob + (glob.ends_with('/') ? "*" : "/*");
  return fnmatch(below.c_str(), file.c_str(), 0) == 0;
}

std::vector<DType> dtype_list(const std::string& text) {
  std::vector<DType> out;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    const auto word = text.substr(at, end - at);
    const auto type = dtype_from_name(word);
    if (type == DType::none) throw UsageError(fmt::format("--dtypes: there is no element type '{}'", word));
    out.push_back(type);
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string group_of(const KernelEntry& e) { return e.name.starts_with("iron_") ? e.name.substr(5) : e.name; }

void Filters::add_to(CLI::App& sub, bool positional) {
  if (positional)
    sub.add_option("FILTER", words, "Part of the kernel's name; with a '/' a glob over its source file")->type_name("");
  const auto many = [&](const char* flag, std::vector<std::string>& to, const char* type, const char* text) {
    sub.add_option(flag, to, text)->type_name(type)->allow_extra_args(false)->group("Filters");
  };
  many("-f,--filter", parts, "TEXT", "Part of the name, in any case");
  many("--match-name", names, "REGEX", "The name matches");
  many("--no-match-name", no_names, "REGEX", "The name does not match");
  many("--match-group", groups, "REGEX", "The family or the op group matches");
  many("--no-match-group", no_groups, "REGEX", "Neither family nor op group matches");
  many("--match-path", paths, "GLOB", "The source file matches");
  many("--no-match-path", no_paths, "GLOB", "The source file does not match");
  sub.add_option("--dtypes", dtypes, "Only these element types")->type_name("f32,f16,...")->group("Filters");
}

std::vector<const KernelEntry*> Filters::select(const Registry& registry) const {
  const auto name_yes = regexes(names, "--match-name"), name_no = regexes(no_names, "--no-match-name");
  const auto group_yes = regexes(groups, "--match-group"), group_no = regexes(no_groups, "--no-match-group");
  for (const auto& g : paths) check_glob(g, "--match-path");
  for (const auto& g : no_paths) check_glob(g, "--no-match-path");
  for (const auto& w : words)
    if (w.find('/') != std::string::npos) check_glob(w, "FILTER");
  const auto types = dtype_list(dtypes);

  const auto passes = [&](const KernelEntry& e) {
    const std::string name = e.full_name(), small = lower(name);
    const auto found = [&](const std::regex& r) { return std::regex_search(name, r); };
    const auto in_group = [&](const std::regex& r) {
      return std::regex_search(e.family, r) || std::regex_search(group_of(e), r);
    };
    const auto in_path = [&](const std::string& g) { return path_matches(g, e.file); };
    const auto word_holds = [&](const std::string& w) {
      return w.find('/') != std::string::npos ? in_path(w) : small.find(lower(w)) != std::string::npos;
    };
    return std::all_of(words.begin(), words.end(), word_holds) &&
           std::all_of(parts.begin(), parts.end(),
                       [&](const auto& p) { return small.find(lower(p)) != std::string::npos; }) &&
           std::all_of(name_yes.begin(), name_yes.end(), found) &&
           std::none_of(name_no.begin(), name_no.end(), found) &&
           std::all_of(group_yes.begin(), group_yes.end(), in_group) &&
           std::none_of(group_no.begin(), group_no.end(), in_group) &&
           std::all_of(paths.begin(), paths.end(), in_path) &&
           std::none_of(no_paths.begin(), no_paths.end(), in_path) &&
           (types.empty() || std::find(types.begin(), types.end(), e.dtype) != types.end());
  };
  std::vector<const KernelEntry*> out;
  for (const auto& e : registry.entries())
    if (passes(e)) out.push_back(&e);
  return out;
}

const KernelEntry& find_kernel(const Registry& registry, const std::string& name, const std::string& dtype) {
  if (!dtype.empty() && dtype_from_name(dtype) == DType::none)
    throw UsageError(fmt::format("--dtype: there is no element type '{}'", dtype));
  std::string near;
  for (const auto& e : registry.entries()) {
    const bool named = name == e.name || name == group_of(e);
    const bool full = name == e.full_name() || "iron_" + name == e.full_name();
    if ((full && (dtype.empty() || dtype == dtype_name(e.dtype))) ||
        (named && (dtype.empty() || dtype == dtype_name(e.dtype))))
      return e;
    if (e.full_name().find(name) != std::string::npos || named) near += "\n  " + e.full_name();
  }
  throw UsageError(fmt::format("there is no kernel '{}'{}{}", name, dtype.empty() ? "" : " for " + dtype,
                               near.empty() ? "; 'iron inspect' lists them" : "; near it:" + near));
}

}  // namespace iron::tool

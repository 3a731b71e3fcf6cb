// Arguments, text in, passes, text out. Every kernel of the text is one that the others may call.
#include "passes/opt_driver.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "ir/text.h"
#include "passes/pipeline.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr std::string_view usage =
    "usage: iron opt [FILE] [--pass NAME,...|all] [--stop-after NAME] [--policy exact|fused|fast]\n"
    "                [--kernel NAME] [--no-verify] [--remarks] [--groups] [--stats] [--time-passes] [--quiet]\n"
    "Reads IR text from FILE, or from standard input if FILE is absent or -, runs the passes and prints the result.\n";

struct OptArguments {
  std::string file = "-";
  std::vector<std::string> passes;
  bool all = false, remarks = false, groups = false, stats = false, times = false, quiet = false, help = false;
  std::string kernel;
  PassOptions options;
};

[[noreturn]] void wrong(std::string message, std::string fix) {
  throw Error("OPT01", std::move(message), std::move(fix));
}

Numerics policy(const std::string& text) {
  for (const auto n : {Numerics::exact, Numerics::fused, Numerics::fast})
    if (text == name(n)) return n;
  wrong(fmt::format("'{}' is no numerics policy", text), "exact, fused or fast");
}

OptArguments read(std::span<const std::string> arguments) {
  OptArguments a;
  a.options.verify = true;
  bool file_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i], value;
    bool has_value = false;
    if (const auto eq = word.find('='); word.starts_with("--") && eq != std::string::npos)
      value = word.substr(eq + 1), word.resize(eq), has_value = true;
    const auto need = [&]() -> const std::string& {
      if (!has_value) {
        if (i + 1 >= arguments.size()) wrong(fmt::format("{} needs a value", word), std::string(usage));
        value = arguments[++i];
      }
      return value;
    };
    if (word == "--pass") {
      const std::string& list = need();
      for (std::size_t at = 0; at <= list.size();) {
        const auto end = std::min(list.find(',', at), list.size());
        const auto one = list.substr(at, end - at);
        if (one == "all")
          a.all = true;
        else
          a.passes.push_back(one);
        at = end + 1;
      }
    } else if (word == "--stop-after")
      a.options.stop_after = need();
    else if (word == "--policy")
      a.options.policy = policy(need());
    else if (word == "--kernel")
      a.kernel = need();
    else if (word == "--no-verify")
      a.options.verify = false;
    else if (word == "--remarks")
      a.remarks = true;
    else if (word == "--groups")
      a.groups = true;
    else if (word == "--stats")
      a.stats = true;
    else if (word == "--time-passes")
      a.times = true;
    else if (word == "--quiet")
      a.quiet = true;
    else if (word == "--help" || word == "-h")
      a.help = true;
    else if (word.starts_with("-") && word != "-")
      wrong(fmt::format("'{}' is no option", word), std::string(usage));
    else if (file_given)
      wrong("more than one file is named", std::string(usage));
    else
      a.file = word, file_given = true;
  }
  if (a.all && !a.passes.empty()) wrong("--pass names all and others", "give all, or the passes one by one");
  return a;
}

void report(const Kernel& k, const PipelineResult& result, const OptArguments& a, std::ostream& out) {
  if (a.remarks)
    for (const auto& r : result.remarks) out << "// remark: " << to_string(r) << '\n';
  if (a.groups)
    for (const auto& g : result.groups) {
      out << "// group:";
      for (const OpId id : g.ops) out << ' ' << k.info_of(id).text;
      out << '\n';
    }
  if (a.stats)
    for (const auto& s : result.stats)
      out << fmt::format("// stats: {:<18} {:>6} -> {:>6} ops{}\n", s.pass, s.ops_before, s.ops_after,
                         s.changed ? "  changed" : "");
  if (a.times) {
    double total = 0;
    for (const auto& s : result.stats)
      total += s.time_us, out << fmt::format("// time: {:<18} {:>9.1f} us\n", s.pass, s.time_us);
    out << fmt::format("// time: {:<18} {:>9.1f} us\n", "total", total);
  }
}

void run(const OptArguments& a, std::istream& in, std::ostream& out) {
  std::string text;
  if (a.file == "-")
    text.assign(std::istreambuf_iterator<char>(in), {});
  else {
    std::ifstream file(a.file, std::ios::binary);
    if (!file) wrong(fmt::format("{} cannot be read", a.file), "name a file that exists, or - for standard input");
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto kernels = parse_all(text, a.file == "-" ? "<stdin>" : a.file);
  KernelRegistry registry;
  for (const auto& k : kernels)
    if (!registry.emplace(k.name, &k).second)
      throw Error("D21", fmt::format("two kernels are called {}", k.name), "give each kernel its own name");
  if (!a.kernel.empty() && !registry.count(a.kernel))
    wrong(fmt::format("the text holds no kernel {}", a.kernel), "name one of the text's kernels");
  PassOptions options = a.options;
  options.kernels = &registry;
  for (const auto& k : kernels) {
    if (!a.kernel.empty() && k.name != a.kernel) continue;
    Kernel work = k;
    const auto result = a.all ? run_pipeline(work, options) : run_passes(work, a.passes, options);
    report(work, result, a, out);
    if (!a.quiet) out << print(work);
  }
}
}  // namespace

int run_opt(std::span<const std::string> arguments, std::istream& in, std::ostream& out, std::ostream& err) {
  try {
    const auto a = read(arguments);
    if (a.help)
      out << usage;
    else
      run(a, in, out);
    return 0;
  } catch (const Error& e) {
    err << e.what();
    return e.code() == "OPT01" ? 2 : 1;
  }
}

}  // namespace iron::passes

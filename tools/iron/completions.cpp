// `iron completions SHELL`: scripts made from the command line's own description, so that they cannot fall behind it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "app.h"
#include "iron/library.h"

namespace iron::tool {

namespace {

struct Flag {
  std::string text, about;
};

std::string escaped(const std::string& text, const std::string& special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

std::vector<Flag> flags_of(const CLI::App& app) {
  std::vector<Flag> out;
  for (const auto* o : app.get_options()) {
    for (const auto& l : o->get_lnames()) out.push_back({"--" + l, o->get_description()});
    for (const auto& s : o->get_snames()) out.push_back({"-" + s, o->get_description()});
  }
  return out;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  auto subs = app.get_subcommands([](const CLI::App*) { return true; });
  return {subs.begin(), subs.end()};
}

std::string words(const std::vector<Flag>& flags) {
  std::string out;
  for (const auto& f : flags) out += (out.empty() ? "" : " ") + f.text;
  return out;
}

std::string bash(const CLI::App& app) {
  std::string names, cases;
  for (const auto* c : commands_of(app)) {
    names += (names.empty() ? "" : " ") + c->get_name();
    std::string pattern = c->get_name();
    for (const auto& a : c->get_aliases()) pattern += "|" + a;
    cases += fmt::format("    {}) words=\"{}\" ;;\n", pattern, words(flags_of(*c)));
  }
  return fmt::format(R"(# bash completion for iron: source it, or put it into the completions folder as `iron`.
_iron() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command= words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${{COMP_WORDS[i]}} == -* ]] || {{ command=${{COMP_WORDS[i]}}; break; }}
  done
  case $command in
    "") words="{} {}" ;;
{}  esac
  if [[ -n $command && $current != -* ]]; then
    case $command in
      opt|replay|tune|lint) COMPREPLY=() ; compopt -o default 2>/dev/null ; return ;;
      completions) words="bash zsh fish" ;;
      *) words=$(iron build --identity 2>/dev/null | cut -d' ' -f1) ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _iron iron
)",
                     names, words(flags_of(app)), cases);
}

std::string zsh(const CLI::App& app) {
  std::string names, cases;
  const auto arguments = [](const std::vector<Flag>& flags) {
    std::string out;
    for (const auto& f : flags) {
      std::string about = f.about;
      std::replace(about.begin(), about.end(), '\'', ' ');
      out += fmt::format(" \\\n        '{}[{}]'", f.text, escaped(about, "[]:\\"));
    }
    return out;
  };
  for (const auto* c : commands_of(app)) {
    std::string about = c->get_description();
    std::replace(about.begin(), about.end(), '\'', ' ');
    names += fmt::format("    '{}:{}'\n", c->get_name(), escaped(about, ":"));
    std::string pattern = c->get_name();
    for (const auto& a : c->get_aliases()) pattern += "|" + a;
    const std::string positional =
        c->get_name() == "completions" ? "'1:shell:(bash zsh fish)'"
        : c->get_name() == "opt" || c->get_name() == "replay" || c->get_name() == "tune" || c->get_name() == "lint"
            ? "'*:file:_files'"
            : "'*:kernel:_iron_kernels'";
    cases += fmt::format("    {})\n      _arguments {}{} ;;\n", pattern, positional, arguments(flags_of(*c)));
  }
  return fmt::format(R"zsh(#compdef iron
# zsh completion for iron: put it into a folder of $fpath as `_iron`.
_iron_kernels() {{
  local -a kernels
  kernels=(${{(f)"$(iron build --identity 2>/dev/null | cut -d' ' -f1)"}})
  compadd -a kernels
}}
_iron() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    _arguments{}
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
_iron "$@"
)zsh",
                     names, arguments(flags_of(app)), cases);
}

std::string fish(const CLI::App& app) {
  std::string out =
      "# fish completion for iron: put it into ~/.config/fish/completions/iron.fish.\ncomplete -c iron -f\n";
  const auto quoted = [](const std::string& text) { return "'" + escaped(text, "'\\") + "'"; };
  const auto flags = [&](const CLI::App& from, const std::string& condition) {
    for (const auto& f : flags_of(from))
      out +=
          fmt::format("complete -c iron -n {} {} {} -d {}\n", quoted(condition), f.text.starts_with("--") ? "-l" : "-s",
                      f.text.substr(f.text.starts_with("--") ? 2 : 1), quoted(f.about));
  };
  for (const auto* c : commands_of(app)) {
    out += fmt::format("complete -c iron -n __fish_use_subcommand -a {} -d {}\n", c->get_name(),
                       quoted(c->get_description()));
    const std::string here = "__fish_seen_subcommand_from " + c->get_name();
    flags(*c, here);
    if (c->get_name() == "completions")
      out += fmt::format("complete -c iron -n {} -a 'bash zsh fish'\n", quoted(here));
    else if (c->get_name() == "opt" || c->get_name() == "replay" || c->get_name() == "tune" || c->get_name() == "lint")
      out += fmt::format("complete -c iron -n {} -F\n", quoted(here));
    else
      out += fmt::format("complete -c iron -n {} -a '(iron build --identity 2>/dev/null | cut -d\" \" -f1)'\n",
                         quoted(here));
  }
  flags(app, "__fish_use_subcommand");
  return out;
}

}  // namespace

void add_completions(CLI::App& app, const Globals&, Action& action) {
  auto* sub = subcommand(app, "completions", "Print the completion script of a shell",
                         "  source <(iron completions bash)\n"
                         "  iron completions zsh > ~/.zfunc/_iron\n"
                         "  iron completions fish > ~/.config/fish/completions/iron.fish");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("");
  sub->callback([&app, &action, shell] {
    action = [&app, shell] {
      fmt::print("{}", *shell == "bash" ? bash(app) : *shell == "zsh" ? zsh(app) : fish(app));
      return success;
    };
  });
}

}  // namespace iron::tool

#include "tools/commands.h"
#include "weft/graph/ir/node_error.h"

#include <ATen/DynamicLibrary.h>
#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <iostream>
#include <new>

namespace {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;

/// An error is one line, so that it can be read in a log and by a script.
int fail(std::string text, int code) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
    text.replace(at, 1, "; ");
  }
  std::cerr << "weft: " << text << "\n";
  return code;
}

/// "weft shard", of the command that was being read.
std::string name_of(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? app.get_name() : app.get_name() + " " + used[0]->get_name();
}

int fail_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  return fail(
      text + (text.empty() || text.back() == '.' ? "" : ".") + " See " + name_of(app) + " --help.", kWrongUsage);
}

/// Loads libraries whose static objects register operators and rules; they stay loaded.
void load(const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    try {
      at::DynamicLibrary(path.c_str(), nullptr, /*leak_handle=*/true);
    } catch (const c10::DynamicLibraryError& error) {
      TORCH_CHECK_VALUE(
          false, "[weft] --library must name a shared library that can be loaded, but got ", path, ": ",
          error.what_without_backtrace());
    }
  }
}

/// What a command has printed must have arrived, or a script would go on with half of it.
int finish() {
  std::cout.flush();
  return std::cout ? 0 : fail("the standard output cannot be written: is the disk full?", kFailure);
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file that would grow past `ulimit -f` is an error of the write, as on a full disk
  CLI::App app(
      "weft: SPMD distributed tensors for LibTorch, and a tensor-parallel compiler of exported programs.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage. Errors are one line on stderr.",
      "weft");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.add_option_function<std::vector<std::string>>(
         "--library", &load,
         "A shared library to load first, which defines operators of the program (TORCH_LIBRARY) and perhaps their "
         "rules")
      ->allow_extra_args(false);
  weft::add_plan_command(app);
  weft::add_explain_command(app);
  weft::add_shard_command(app);
  weft::add_run_command(app);
  weft::add_overlap_command(app);
  weft::add_check_plan_command(app);
  weft::add_redistribute_command(app);
  weft::add_show_command(app);
  weft::add_checkpoint_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : fail_usage(app, error);
  } catch (const std::bad_alloc&) {
    return fail(name_of(app) + " ran out of memory.", kFailure);
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    return fail(
        weft::graph::is_defect(error) ? weft::graph::defect_text("`" + name_of(app) + "`", error)
            : torch_error != nullptr  ? torch_error->what_without_backtrace()
                                      : error.what(),
        kFailure);
  }
  return finish();
}

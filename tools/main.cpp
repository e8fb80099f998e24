#include "tools/commands.h"

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <iostream>

int main(int argc, char** argv) {
  CLI::App app("weft: SPMD distributed tensors for LibTorch");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  weft::add_demo_command(app);
  weft::add_check_plan_command(app);
  weft::add_plan_command(app);
  weft::add_show_command(app);
  try {
    CLI11_PARSE(app, argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "weft: " << error.what_without_backtrace() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "weft: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

#pragma once

namespace CLI {
class App;
}

namespace weft {

/// One function per subcommand, each in a file of its name.
void add_shard_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_check_plan_command(CLI::App& app);
void add_redistribute_command(CLI::App& app);
void add_show_command(CLI::App& app);
void add_overlap_command(CLI::App& app);
void add_checkpoint_command(CLI::App& app);

} // namespace weft

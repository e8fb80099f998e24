#include "weft/graph/pipeline/pass.h"

#include "weft/graph/ir/verify.h"
#include "weft/graph/pipeline/pass_dump.h"

#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

#ifdef NDEBUG
constexpr bool kAlwaysVerifies = false;
#else
constexpr bool kAlwaysVerifies = true;
#endif

const char* text_of(ProgramForm form) {
  switch (form) {
    case ProgramForm::Global:
      return "a global program";
    case ProgramForm::Parallel:
      return "a program with layouts";
    case ProgramForm::Rank:
      return "a rank's program";
  }
  return "";
}

void verify_after(const Pass& pass, const Program& program) {
  try {
    verify(program);
  } catch (const c10::Error& error) {
    TORCH_INTERNAL_ASSERT(false, "the pass ", pass.name, " broke the program: ", error.what_without_backtrace());
  }
}

} // namespace

bool run_passes(
    c10::ArrayRef<Pass> passes,
    Program& program,
    ProgramForm form,
    PassContext& context,
    const PassOptions& options) {
  std::optional<PassDump> dump;
  if (!options.dump_folder.empty()) {
    dump.emplace(options.dump_folder);
  }
  bool changed = false;
  for (size_t i = 0; i < passes.size(); ++i) {
    const auto& pass = passes[i];
    TORCH_INTERNAL_ASSERT(
        pass.takes == form, "the pass ", pass.name, " takes ", text_of(pass.takes), ", but got ", text_of(form), ".");
    form = pass.gives;
    if (pass.applies != nullptr && !pass.applies(context)) {
      continue;
    }
    changed = pass.run(program, context) || changed;
    if (dump) {
      dump->write(i + 1, pass.name, program);
    }
    if (kAlwaysVerifies || options.verifies) {
      verify_after(pass, program);
    }
  }
  return changed;
}

} // namespace weft::graph

#include "tools/explain_page.h"

#include "explain_page_html.h" // made of explain_page.html

namespace weft {

std::string explain_page(const std::string& json) {
  std::string page = kExplainPage;
  // Escapes "<", which JSON has inside of strings alone, so that no text of the program can end the page's script.
  std::string data;
  for (const char letter : json) {
    data += letter == '<' ? "\\u003c" : std::string(1, letter);
  }
  constexpr std::string_view kPlace = "/*DATA*/";
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

} // namespace weft

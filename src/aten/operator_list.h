// Lists of operators as text: one string literal of names separated by blanks or line ends. Private to this folder.
#pragma once

#include <string_view>
#include <vector>

namespace isobit::aten {

// The words of a literal, in its order.
inline std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlank = " \n";
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(kBlank); begin != text.npos;
       begin = text.find_first_not_of(kBlank, begin)) {
    const std::size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

}  // namespace isobit::aten

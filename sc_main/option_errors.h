// The line for a command line that CLI11 refuses.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace railyard {

/// "dgx_h100: error: ...", in one line; with the nearest option for one that does not exist.
std::string command_line_error(const std::string& program, const CLI::App& app, const CLI::ParseError& error);

}  // namespace railyard

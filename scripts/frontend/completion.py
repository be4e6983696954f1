"""The completion for bash and zsh, and the manual page, from the executables' options and their schema of a scenario."""

import pathlib
import re
from collections.abc import Iterator

from lib import keys
from lib.words import nearest
from lib.yaml_source import InputError

from . import executables, lists

WITH_SCENARIO = ("run", "explain", "describe", "check", "serve")  # whose words are scenarios

BASH = r"""# bash completion of railyard; written by: railyard completion bash
_railyard() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} key= start= word=
  [ "$current" = = ] && current= && previous==
  if [ "$previous" = = ]; then
    key=${COMP_WORDS[COMP_CWORD-1]}
    [ "$key" = = ] && key=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '@commands@' -- "$current"))
    return
  fi
  case ${COMP_WORDS[1]} in
    @with_scenario@)
      if [ -n "$key" ]; then
        case $key in
@values@
        esac
        COMPREPLY=($(compgen -W "$word" -- "$current"))
        [ -n "$word" ] || COMPREPLY=($(compgen -f -- "$current"))
        return
      fi
      case $previous in
        --set) compopt -o nospace; COMPREPLY=($(compgen -S = -W '@keys@' -- "$current")); return ;;
@choices@
      esac
      case $current in
        -*) word='@options@'
          [ "${COMP_WORDS[1]}" = serve ] && word='@server_options@'
          COMPREPLY=($(compgen -W "$word" -- "$current")) ;;
        *) COMPREPLY=($(compgen -W '@scenarios@' -- "$current") $(compgen -f -- "$current")) ;;
      esac ;;
    list) [ "$COMP_CWORD" -eq 2 ] && COMPREPLY=($(compgen -W '@lists@' -- "$current")) ;;
    completion) [ "$COMP_CWORD" -eq 2 ] && COMPREPLY=($(compgen -W 'bash zsh' -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _railyard railyard
"""

ZSH = r"""#compdef railyard
# zsh completion of railyard; written by: railyard completion zsh
_railyard() {
  local -a commands options server_options
  local key=${PREFIX%%=*} word=
  commands=(
@described@
  )
  options=(
@described_options@
  )
  server_options=(
@described_server_options@
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case ${words[2]} in
    @with_scenario@)
      case ${words[CURRENT-1]} in
        --set)
          if [[ $PREFIX != *=* ]]; then
            compadd -S = -- @keys@
            return
          fi
          compset -P '*='
          case $key in
@values@
          esac
          [[ -n $word ]] && compadd -- ${=word} || _files
          return ;;
@choices@
      esac
      if [[ $PREFIX == -* && ${words[2]} == serve ]]; then
        _describe option server_options
      elif [[ $PREFIX == -* ]]; then
        _describe option options
      else
        compadd -- @scenarios@
        _files
      fi ;;
    list) (( CURRENT == 3 )) && compadd -- @lists@ ;;
    completion) (( CURRENT == 3 )) && compadd -- bash zsh ;;
    *) _files ;;
  esac
}
_railyard "$@"
"""


def parameters(node: dict, path: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The keys of a schema as --set takes them, with their text and their words. NAME stands for a name that the user chooses, N for a number of a list."""
    words, is_value, below = [], False, {}
    for part in keys.alternatives(node):
        words += ["true", "false"] if part.get("type") == "boolean" else [str(word) for word in part.get("enum", ())]
        is_value = is_value or part.get("type") != "object"
        below |= dict(part.get("properties", {}))
        if isinstance(part.get("additionalProperties"), dict):
            below["NAME"] = part["additionalProperties"]
        if isinstance(part.get("items"), dict) and any("properties" in item for item in keys.alternatives(part["items"])):
            below["N"] = part["items"]
    if path and is_value:
        yield path, node.get("description", ""), tuple(dict.fromkeys(words))
    for key, child in below.items():
        yield from parameters(child, f"{path}.{key}" if path else key)


def table(executable: pathlib.Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Text and words of each key; those of one name in several kinds of workload together."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for key, text, words in _all(keys.schema(executable)):
        before = found.get(key, (text, ()))
        found[key] = before[0], tuple(dict.fromkeys(before[1] + words))
    names = {"gpu": lists.names("gpus"), "engine": lists.names("engines")}
    return {key: (text, words or tuple(names.get(key.rpartition(".")[2], ()))) for key, (text, words) in found.items()}


def _all(schema: dict) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each alternative of the workload on its own, because their keys of one name differ."""
    for key, node in schema["properties"].items():
        for part in keys.alternatives(node) if key == "workload" else (node,):
            yield from parameters(part, key)


def _pattern(key: str) -> str:
    return re.sub(r"\bNAME\b|\bN\b", "*", key)


def _cases(words: dict[str, tuple[str, ...]], indent: int, line: str) -> str:
    """Branches of a case statement: `line` with the words of each key."""
    return "\n".join(f"{' ' * indent}{_pattern(key)}) {line.replace('@', ' '.join(each))} ;;" for key, each in words.items() if each)


def _names(options: list[executables.Option]) -> str:
    return " ".join(name for option in options for name in option.names)


def _described(options: list[executables.Option]) -> str:
    """Lines of an array for _describe of zsh."""
    return "\n".join("    '{}:{}'".format(name, option.text.replace("'", "").replace(":", "\\:")) for option in options for name in option.names)


def script(shell: str, executable: pathlib.Path, commands: dict[str, str]) -> str:
    """@throws InputError for a shell other than bash and zsh"""
    if shell not in ("bash", "zsh"):
        raise InputError(f"railyard completion: error: '{shell}' is unknown{nearest(shell, ('bash', 'zsh'))}; accepted: bash, zsh")
    found, options = table(executable), executables.all_options(executable)
    server_options = executables.server_options(executable.parent)
    choices = {name: tuple(option.value.split("|")) for option in options for name in option.names if "|" in option.value}
    choices["--platform"] = tuple(executables.platforms())
    is_bash = shell == "bash"
    quoted = {name: text.replace("'", "").replace(":", "\\:") for name, text in commands.items()}
    pieces = {
        "commands": " ".join(commands), "with_scenario": "|".join(WITH_SCENARIO), "keys": " ".join(found), "lists": " ".join(lists.LISTS),
        "scenarios": " ".join(path.relative_to(executables.SCENARIOS).with_suffix("").as_posix() for path in executables.scenarios()),
        "options": _names(options), "server_options": _names(server_options),
        "described": "\n".join(f"    '{name}:{text}'" for name, text in quoted.items()),
        "described_options": _described(options), "described_server_options": _described(server_options),
        "values": _cases({key: words for key, (_, words) in found.items()}, 10, "word='@'"),
        "choices": _cases(choices, 8, "COMPREPLY=($(compgen -W '@' -- \"$current\")); return" if is_bash else "compadd -- @; return"),
    }
    return re.sub(r"@(\w+)@", lambda piece: pieces[piece[1]], BASH if is_bash else ZSH)


def _roff(text: str) -> str:
    """Text for a manual page."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", r"\e").replace("-", r"\-"), flags=re.MULTILINE)


def manual(executable: pathlib.Path, about: str, commands: dict[str, str]) -> str:
    """The manual page, for man(1)."""
    title, _, rest = about.partition("\n")
    version = executables.output([executable, "--version"]).split()[1]
    lines = [f'.TH RAILYARD 1 "" "Railyard {version}" "User Commands"', ".SH NAME", f"railyard \\- {_roff(title.removesuffix('.'))}", ".SH SYNOPSIS",
             ".B railyard", r"COMMAND [WORD|OPTION]...", ".SH DESCRIPTION", ".nf", _roff(rest.strip("\n")), ".fi"]

    def section(head: str, entries: Iterator[tuple[str, str]]) -> None:
        lines.append(f".SH {head}")
        for name, text in entries:
            lines.extend((".TP", f".B {_roff(name)}", _roff(text) or r"\&"))

    section("COMMANDS", iter(commands.items()))
    for head, options in (("OPTIONS", executables.all_options(executable)), ('"OPTIONS OF SERVE"', executables.server_options(executable.parent))):
        section(head, ((" ".join((", ".join(option.names), option.value)).strip(), option.text) for option in options))
    section("KEYS OF A SCENARIO", ((key, text + (f"; one of: {', '.join(words)}" if words else "")) for key, (text, words) in table(executable).items()))
    section('"EXIT STATUS"', iter((("0", "done"), ("2", "bad input; one line says where and what is accepted"),
                                   ("3", "the run cannot go on; stderr says which job waits for what"), ("128 + N", "ended by signal N"))))
    return "\n".join(lines) + "\n"

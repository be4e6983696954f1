#!/usr/bin/python3
"""Writes, checks and describes scenarios.

  scripts/scenario.py new my.yaml                       # asks for the required keys; optional keys become comments
  scripts/scenario.py new my.yaml --platform plx_box --kind disaggregated_prefill \\
      --set model.config=scenarios/models/llama-3.1-8b.json --set workload.requests.prompt_tokens=2048 \\
      --set workload.prefill.tp=4 --set workload.prefill.pp=1
  scripts/scenario.py check my.yaml scenarios/*.yaml    # each with the executable of its platform
  scripts/scenario.py schema                            # JSON Schema, for editors

Every key, unit, range and default comes from the executables' own schema.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from lib.command_line import BAD_INPUT, INTERRUPTED, ROOT, Parser, one_line

try:
    from lib import keys, scenario_template as template
    from lib.words import nearest
    from lib.yaml_source import InputError, read
except ImportError as missing:
    sys.exit(f"scenario.py: error: {missing}; it needs the Debian package python3-yaml")

SCHEMA = ROOT / "scenarios" / "scenario.schema.json"


def setting(text):
    key, equals, value = text.partition("=")
    if not key or not equals or not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def parse_options(arguments):
    parser = Parser(description=__doc__)
    parser.add_executables()
    commands = parser.add_subparsers(dest="command", required=True, metavar="new|check|schema", parser_class=Parser)
    new = commands.add_parser("new", help="write a scenario")
    new.add_argument("file", type=pathlib.Path, metavar="FILE", help="the new scenario; the file must not exist yet")
    new.add_argument("--platform", help="platform of the scenario, for example plx_box")
    new.add_argument("--kind", help="kind of workload, for example disaggregated_prefill")
    new.add_argument("--set", action="append", default=[], type=setting, metavar="KEY=VALUE", dest="sets",
                     help="set a key of the scenario; repeatable; paths of files are relative to the current directory")
    check = commands.add_parser("check", help="check scenarios")
    check.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    commands.add_parser("schema", help="print the JSON Schema of scenarios")
    return parser.parse_args(arguments)


def executable(options, platform=None):
    """The platform's, or any: all have the same schema."""
    there = [name for name in template.platforms(SCHEMA) if (options.bin / name).is_file()]
    if platform is None and there:
        platform = there[0]
    if platform not in there:
        raise InputError(f"scenario.py: error: no platform executable '{platform or ''}' in {options.bin}"
                         f"{nearest(platform or '', there)}; there are: {', '.join(there) or 'none'}")
    return options.bin / platform


def ask(key, description, accepted):
    """The answer to a question; where nobody can answer, an error that names the option."""
    words = description + (f"; one of: {', '.join(accepted)}" if accepted else "")
    if not sys.stdin.isatty():
        option = {"platform": "--platform NAME", "workload.kind": "--kind NAME"}.get(key, f"--set {key}=VALUE")
        raise InputError(f"scenario.py: error: {key}: missing; give {option} ({words})")
    while True:
        answer = input(f"{key} ({words}): ").strip()
        if answer and (not accepted or answer in accepted):
            return answer


def located(key, value, scenario):
    """An input's path as the scenario is to name it, relative where that is shorter; any other value as it is."""
    if not keys.names_input(key, value) or not os.path.exists(value):
        return value
    return shortest(value, scenario)


def shortest(value, scenario):
    return min(os.path.relpath(os.path.realpath(value), scenario.resolve().parent), os.path.realpath(value), key=len)


def new(options):
    if options.file.exists():
        raise InputError(f"scenario.py: error: {options.file}: exists")
    if not options.file.parent.is_dir():
        raise InputError(f"scenario.py: error: {options.file.parent}: no such directory")
    schema = keys.schema(executable(options, options.platform))
    given = dict(options.sets)
    given |= {key: value for key, value in (("platform", options.platform), ("workload.kind", options.kind)) if value}
    for key, value in given.items():
        if wrong := keys.unknown(schema, key):
            raise InputError(f"scenario.py: error: --set {key}={value}: {wrong}")
        given[key] = located(key, value, options.file)
    for key in ("platform", "workload.kind"):
        accepted = template.accepted(schema, key)
        if key not in given:
            given[key] = ask(key, template.description(schema, key), accepted)
        if given[key] not in accepted:
            raise InputError(f"scenario.py: error: {key}: '{given[key]}' is unknown{nearest(given[key], accepted)};"
                             f" accepted: {', '.join(accepted)}")
    for key in template.required(schema, given):
        answer = ask(key, template.description(schema, key, given), template.accepted(schema, key, given))
        given[key] = located(key, answer, options.file)
    text = template.scenario(schema, given, shortest(SCHEMA, options.file))
    write_checked(options, given["platform"], text)
    command = min(os.path.relpath(options.bin / given["platform"]), str(options.bin / given["platform"]), key=len)
    print(f"{options.file}: written; {command} {options.file} --explain tells what it means")


def write_checked(options, platform, text):
    """Writes the scenario if the executable takes it. Its message otherwise speaks of keys, not of a file that is not there."""
    place = {"dir": options.file.parent, "prefix": ".", "suffix": ".yaml"}
    with tempfile.NamedTemporaryFile("w", **place, encoding="utf-8", delete=False) as file:
        file.write(text)
    try:
        command = [executable(options, platform), file.name, "--check", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InputError(f"scenario.py: error: {done.stderr.strip().partition(' error: ')[2] or done.stderr.strip()}")
        os.chmod(file.name, 0o666 & ~umask())
        os.rename(file.name, options.file)
    finally:
        pathlib.Path(file.name).unlink(missing_ok=True)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check(options):
    status = 0
    for file in options.files:
        try:
            fields = {key: value for key, _, value in read(file).items("scenario")}
            if "platform" not in fields:
                raise InputError(f"{file}: error: platform: missing; one of: {', '.join(template.platforms(SCHEMA))}")
            command = [executable(options, fields["platform"].text("platform")), file, "--check"]
            status = max(status, subprocess.run(command, check=False).returncode)
        except InputError as error:
            print(error, file=sys.stderr)
            status = BAD_INPUT
    return status


def main(arguments=None):
    options = parse_options(arguments)
    try:
        with one_line("scenario.py", InputError, complete=True):
            if options.command == "new":
                new(options)
            elif options.command == "check":
                sys.exit(check(options))
            else:
                sys.exit(subprocess.run([executable(options), "--schema"], check=False).returncode)
    except (KeyboardInterrupt, EOFError):
        sys.exit(print("\nscenario.py: nothing written", file=sys.stderr) or INTERRUPTED)


if __name__ == "__main__":
    main()

"""The options of `plan.py serving`."""

import argparse
import math
import pathlib
import re
from collections.abc import Callable, Sequence

from lib import runner, yaml_source
from lib.command_line import Parser, positive
from lib.yaml_source import InputError
from loading import cost, objectives

from . import space

TOP, MOST_GPUS, SEEDS, MOST_REQUESTS = 6, 64, 2, 8000
ENGINE = "vllm-0.19"
DEFAULT = "default"  # the engine's value of a setting
_EXAMPLE = "{lognormal: {mean: 1180, cv_ratio: 0.86}}"


def _read(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except (objectives.ObjectiveError, cost.PriceError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _objectives(text: str) -> object:
    return _read(objectives.objectives_of, text)


def _price(text: str) -> object:
    return _read(cost.price_of, text)


def amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def _lengths(text: str) -> object:
    """A number of tokens, or a distribution as in a scenario."""
    try:
        value = yaml_source.parse(text, "lengths").plain()
    except InputError:
        value = None
    if isinstance(value, bool) or not (isinstance(value, int) and value > 0 or isinstance(value, dict)):
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number of tokens nor a distribution, as {_EXAMPLE}")
    return value


def _sizes(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of sizes, as 1,2,4")
    return tuple(dict.fromkeys(map(int, words)))


def _settings(text: str) -> tuple[int | None, ...]:
    """Numbers, or DEFAULT."""
    words = text.split(",")
    if not all(word == DEFAULT or word.isdigit() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers, as {DEFAULT},8192")
    return tuple(dict.fromkeys(None if word == DEFAULT else int(word) for word in words))


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(re.fullmatch(r"[\w./+-]+", word) for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of names")
    return tuple(dict.fromkeys(words))


def parse(arguments: Sequence[str], description: str) -> argparse.Namespace:
    parser = Parser(prog="plan.py serving", description=description)
    add = parser.add_argument
    add("--model", type=pathlib.Path, required=True, metavar="CONFIG", help="config.json of the model")
    add("--gpus", required=True, metavar="GPU,GPU,...", help="GPU datasheets, or the beginning of one name each")
    add("--traffic", type=pathlib.Path, metavar="FILE", help="a trace (Azure, Vidur, Mooncake, LLMServingSim, Bailian), or a list of requests in YAML or JSON")
    add("--prompt", type=_lengths, metavar="N|DIST", help="tokens of a prompt: a number, or a distribution as in a scenario")
    add("--output", type=_lengths, metavar="N|DIST", help="tokens of an answer")
    add("--rate", type=amount, metavar="R", help="requests per second (default: that of the trace)")
    add("--slo", type=_objectives, required=True, metavar="METRIC=LIMIT,...", help="objectives, as for load.py")
    add("--engine", type=_words, default=(ENGINE,), metavar="NAME,...", help=f"serving engines to try (default {ENGINE})")
    add("--kv-dtype", type=_words, default=(None,), metavar="TYPE,...", help="number formats of KV to try (default: the model's)")
    add("--tp", type=_sizes, metavar="N,...", help=f"tensor parallel sizes to try (default {','.join(map(str, space.TP))})")
    add("--pp", type=_sizes, metavar="N,...", help="pipeline parallel sizes to try (default 1; also 2 and 4, a server each, if a server is too small)")
    add("--dp", type=_sizes, metavar="N,...", help="attention replicas to try (default 1; with experts also all GPUs of a server, or of several)")
    add("--ep", type=_sizes, metavar="N,...", help="expert parallel sizes to try (default 1: tensor parallelism divides each expert; with experts also all ranks)")
    add("--chunk", type=_settings, default=(None,), metavar="N,...", help=f"most tokens of a batch to try; {DEFAULT} is the engine's")
    add("--max-seqs", type=_settings, default=(None,), metavar="N,...", help=f"most running requests to try; {DEFAULT} is the engine's")
    add("--router", type=_words, default=("",), metavar="POLICY,...", help="policies of the router to try (default: the scenario's)")
    add("--no-divided", action="store_true", help="leave out prefill and decode on different instances")
    add("--price", type=_price, action="append", default=[], metavar="GPU=PER_HOUR", help="price of a GPU for an hour; repeatable, for all of --gpus")
    add("--budget", type=amount, metavar="PER_HOUR", help="the most that a fleet may cost in an hour; needs --price")
    add("--max-gpus", type=positive, default=MOST_GPUS, metavar="N", help=f"largest fleet (default {MOST_GPUS})")
    add("--top", type=positive, default=TOP, metavar="K", help=f"fleets to simulate, by the estimate (default {TOP})")
    add("--seeds", type=positive, default=SEEDS, metavar="N", help=f"runs of each load (default {SEEDS}; of a trace 1)")
    add("--most-requests", type=positive, default=MOST_REQUESTS, metavar="N", help=f"of a run (default {MOST_REQUESTS})")
    add("--no-what-if", action="store_true", help="do not simulate what would change the answer")
    add("--out", type=pathlib.Path, default=pathlib.Path("out") / "plan_serving", metavar="DIR", help="folder for all results")
    add("--jobs", type=positive, default=runner.WORKERS, metavar="N", help="parallel processes (default: number of processors)")
    add("--json", action="store_true", help="the decision as JSON on stdout")
    parser.add_executables()
    options = parser.parse_args(arguments)
    if options.budget and not options.price:
        parser.error("--budget needs --price")
    lengths = options.prompt, options.output
    if options.traffic and any(lengths):
        parser.error("--traffic already has the lengths; not accepted with --prompt or --output")
    if not options.traffic and not (all(lengths) and options.rate):
        parser.error("--prompt, --output and --rate are needed, or --traffic")
    return options

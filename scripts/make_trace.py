#!/usr/bin/python3
"""Makes a synthetic trace of requests to an LLM service, in the format of a public trace.

There are two formats: the CSV of the Azure LLM inference traces (TIMESTAMP,ContextTokens,GeneratedTokens; times of day
with seven decimals) and the JSON Lines of the Mooncake traces (timestamp in ms, input_length, output_length, and the ids
of the prompt's 512-token blocks; here no two requests share a block).

Gaps between arrivals follow a gamma distribution whose mean is given by the rate. A coefficient of variation of 1 gives the
exponential distribution (Poisson arrivals); above 1, requests arrive in bursts. The first request arrives at time zero.
Prompt and output lengths are log-normal with the given means, at least one token. The same options give the same file.
"""

import argparse
import datetime
import json
import math
import random

from lib import written
from lib.command_line import Parser, one_line

MOONCAKE_BLOCK_TOKENS = 512
AZURE_TICKS_PER_S = 10_000_000
AZURE_EPOCH = datetime.datetime(2024, 1, 1)


def lognormal_tokens(rng, mean, cv):
    """A whole number of tokens, from a log-normal distribution of this mean and coefficient of variation."""
    variance = math.log1p(cv * cv)
    return max(1, round(rng.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))))


def make_requests(options):
    """Yields (arrival in seconds, prompt tokens, output tokens), in order of arrival."""
    rng = random.Random(options.seed)
    shape = 1 / options.arrival_cv**2
    arrival_s = 0.0
    for number in range(options.count):
        if number:
            arrival_s += rng.gammavariate(shape, 1 / (options.rate_per_s * shape))
        prompt = lognormal_tokens(rng, options.prompt_mean_tokens, options.length_cv)
        output = lognormal_tokens(rng, options.output_mean_tokens, options.length_cv)
        yield arrival_s, prompt, output


def azure_lines(requests):
    yield "TIMESTAMP,ContextTokens,GeneratedTokens"
    for arrival_s, prompt, output in requests:
        seconds, ticks = divmod(round(arrival_s * AZURE_TICKS_PER_S), AZURE_TICKS_PER_S)
        when = AZURE_EPOCH + datetime.timedelta(seconds=seconds)
        yield f"{when:%Y-%m-%d %H:%M:%S}.{ticks:07d},{prompt},{output}"


def mooncake_lines(requests):
    next_block = 0
    for arrival_s, prompt, output in requests:
        blocks = -(-prompt // MOONCAKE_BLOCK_TOKENS)
        yield json.dumps(
            {
                "timestamp": round(arrival_s * 1000),
                "input_length": prompt,
                "output_length": output,
                "hash_ids": list(range(next_block, next_block + blocks)),
            }
        )
        next_block += blocks


FORMATS = {"azure": azure_lines, "mooncake": mooncake_lines}


def within(kind, lowest, highest):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"'{text}' is not accepted; expected {kind.__name__} from {lowest:g} to {highest:g}")
        return value

    return parse


def parse_options(arguments):
    parser = Parser(description=__doc__)
    tokens = within(float, 1, 1e7)
    spread = within(float, 0.01, 100)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--count", type=within(int, 1, 1e7), required=True, help="number of requests")
    parser.add_argument(
        "--rate-per-s", type=within(float, 1e-3, 1e6), default=1.0, help="mean arrivals per second (default 1)"
    )
    parser.add_argument(
        "--arrival-cv",
        type=spread,
        default=1.0,
        help="coefficient of variation of the gaps between arrivals: 1 for Poisson arrivals, above 1 for bursts (default 1)",
    )
    parser.add_argument("--prompt-mean-tokens", type=tokens, default=1024.0, help="mean prompt length (default 1024)")
    parser.add_argument("--output-mean-tokens", type=tokens, default=256.0, help="mean output length (default 256)")
    parser.add_argument(
        "--length-cv", type=spread, default=0.8, help="coefficient of variation of both lengths (default 0.8)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers (default 1)")
    parser.add_argument("--out", required=True, metavar="FILE")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_options(arguments)
    text = "".join(line + "\n" for line in FORMATS[options.format](make_requests(options)))
    with one_line("make_trace.py"):
        written.text(options.out, text)


if __name__ == "__main__":
    main()

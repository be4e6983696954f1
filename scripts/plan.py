#!/usr/bin/python3
"""Finds the fastest mapping (TP x CP x EP x PP x DP, virtual stages, micro-batch, ZeRO stage, recomputation, overlap, split of layers) of a training step.

  scripts/plan.py --model scenarios/models/llama-3.1-70b.json --platform dgx_h100 --nodes 16 --batch 128 --seq 8192 --out out/plan70b
  scripts/plan.py --base scenario.yaml --fix tp=8 --fix micro_batch=1 --top 6 --out out/plan

All mappings are enumerated. Rules refuse those that cannot run; memory refuses those that do not fit (`--explain` of the executable). An
estimate ranks the rest, and the best --top are simulated, with at least one of each tp and with the mappings that people would choose
without a search. OUT gets decision.md, decision.html, plan.csv, and results.sqlite with the runs, which compare.py and report.py read.
`plan.py serving` plans a service: how many of which GPU for a rate of requests (plan.py serving --help).
The same command goes on after Ctrl-C. docs/planning.md explains the page. Exit status: 0 done, 1 some runs failed, 2 bad input.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping as MappingOf, Sequence
from dataclasses import replace

from lib import run_files, runner, written
from lib.command_line import BAD_INPUT, INTERRUPTED, Parser, one_line, positive

try:
    import yaml
    from lib import training_scenario
    from lib.yaml_source import InputError
    from planning import decision, host, machine, references, savings, simulate, space
    from planning.candidates import Candidates
    from planning.collectives import CollectiveError, Collectives
    from planning.estimate import Estimator
    from planning.explain import Explainer, Facts
    from planning.pipeline import PipelineError, Pipelines
    from serving_plan import command as serving
    from sweeping import whole
except ImportError as missing:
    sys.exit(f"plan.py: error: {missing}; it needs the Debian packages python3-yaml and python3-scipy")

TOP = 12
EXPLAINED, COLLECTIVES = "explained.json", "alone.json"  # in OUT: what the executable said
DEFAULT_ZERO_STAGE = 1  # of a scenario that names none


class PlanError(Exception):
    """Bad input of a plan."""


REFUSALS = (PlanError, machine.MachineError, CollectiveError, PipelineError, serving.PlanError)


def fixed(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if key not in space.FIXED:
        nearest = machine.nearest(key, space.FIXED)
        raise argparse.ArgumentTypeError(f"'{key}' is not an axis{nearest}; accepted: {', '.join(space.FIXED)}")
    if not value:
        raise argparse.ArgumentTypeError(f"'{text}' has no value; accepted: {key}=VALUE")
    return key, value


def features(text: str) -> list[str]:
    words = text.split(",")
    for word in words:
        if word not in space.ALLOWED:
            raise argparse.ArgumentTypeError(f"'{word}' is not a feature{machine.nearest(word, space.ALLOWED)}; accepted: {', '.join(space.ALLOWED)}")
    return words


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a ratio above 0 and up to 1")
    return value


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, metavar="CONFIG", help="config.json of the model")
    parser.add_argument("--platform", metavar="NAME", help="platform executable")
    parser.add_argument("--nodes", type=positive, metavar="N", help="servers")
    parser.add_argument("--gpu", metavar="NAME", help="GPU datasheet (default: the platform's)")
    parser.add_argument("--batch", type=positive, metavar="N", help="sequences of a step")
    parser.add_argument("--seq", type=positive, metavar="N", help="tokens of a sequence")
    parser.add_argument("--base", type=pathlib.Path, metavar="SCENARIO", help="a scenario of workload.kind training in place of the options above")
    parser.add_argument("--fix", type=fixed, action="append", default=[], metavar="AXIS=VALUE", help="only this value of an axis; repeatable")
    parser.add_argument("--allow", type=features, action="extend", default=[], metavar="FEATURE,...",
                        help=f"also these, which are not tried by default: {', '.join(space.ALLOWED)} (docs/planning.md); repeatable")
    parser.add_argument("--top", type=positive, default=TOP, metavar="K", help=f"mappings to simulate (default {TOP})")
    parser.add_argument("--memory-limit", type=ratio, default=1.0, metavar="RATIO", help="share of a GPU's memory that a mapping may use (default 1)")
    parser.add_argument("--price", type=serving.amount, metavar="PER_HOUR", help="price of a GPU for an hour, in any currency: adds the cost of a million tokens")
    parser.add_argument("--no-what-if", action="store_true", help="do not simulate what would change the decision")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", default=pathlib.Path("out", "plan"), help="folder for all results (default ./out/plan)")
    parser.add_argument("--jobs", type=positive, default=runner.WORKERS, metavar="N", help="parallel processes (default: number of processors)")
    parser.add_argument("--limit-s", type=positive, metavar="S", help="leave out mappings whose simulation takes longer than this wall time, in seconds")
    parser.add_argument("--backend", type=whole.backend, default="local", metavar="local|slurm|COMMAND", help="where simulations run, as for sweep.py")
    parser.add_argument("--json", action="store_true", help="the decision as JSON on stdout")
    parser.add_executables()
    options = parser.parse_args(arguments)
    given = [options.model, options.platform, options.nodes, options.batch, options.seq]
    if options.base and any(given):
        parser.error("--base already names model, machine and batch; not accepted with --model, --platform, --nodes, --batch or --seq")
    if not options.base and not all(given):
        parser.error("--model, --platform, --nodes, --batch and --seq are needed, or --base")
    return options


def datasheet(gpu: str, folder: pathlib.Path) -> str:
    """The name of a shipped datasheet, or the absolute path of the user's."""
    return str((folder / gpu).resolve()) if gpu.endswith(".yaml") else gpu


def base_scenario(options: argparse.Namespace) -> dict:
    """The scenario of every mapping; paths are absolute."""
    if options.base:
        scenario = training_scenario.read(options.base)
        folder = options.base.resolve().parent
        scenario["model"]["config"] = str(folder / scenario["model"]["config"])
        for group in machine.groups_of(scenario):
            group["gpu"] = datasheet(group["gpu"], folder)
        for axis in {*space.AXES, "dp", "sequence_parallel", "placement"} - {"gtp"}:  # its other keys stay
            scenario["workload"].pop(axis, None)
        stages = machine.zero_stages(machine.software_of(scenario))
        if DEFAULT_ZERO_STAGE not in stages:
            scenario["workload"]["zero_stage"] = stages[0]
        return scenario
    group = {"servers": options.nodes} | ({"gpu": datasheet(options.gpu, pathlib.Path.cwd())} if options.gpu else {})
    return {"schema_version": 1, "platform": options.platform, "model": {"config": str(options.model.resolve())},
            "machine": {"groups": {"node": group}}, "workload": {"kind": "training", "seq_tokens": options.seq, "global_batch": options.batch}}


def axes_of(question: space.Question, options: argparse.Namespace) -> dict[str, tuple]:
    values = space.axes(question, frozenset(options.allow))
    for axis, text in options.fix:
        words = {"recompute": space.RECOMPUTE, "schedule": space.SCHEDULES, "tp_overlap": space.TP_OVERLAP,
                 "stage_layers": space.STAGE_LAYERS}.get(axis)
        value = text if words else int(text) if text.isdigit() else None
        if value is None or (words and value not in words):
            nearest = machine.nearest(text, words or ())
            raise PlanError(f"--fix {axis}={text}: not a value of {axis}{nearest}; accepted: {', '.join(map(str, values[axis]))}")
        values[axis] = (value,)
    return values


@contextlib.contextmanager
def nothing_left(folder: pathlib.Path, names: Sequence[str]) -> Iterator[None]:
    """A plan that is refused leaves these files of the folder as they were, and no folder that was not there."""
    before = {folder / name: (folder / name).read_bytes() if (folder / name).exists() else None for name in names}
    with written.folder(folder):
        try:
            yield
        except (*REFUSALS, run_files.Error, OSError):
            for path, content in before.items():
                if content is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(content)
            raise


def progress(what: str):
    def show(done: int, count: int) -> None:
        if sys.stderr.isatty() or done == count:
            end = "\n" if done == count else ""
            print(f"\r{what}: {done} of {count}", end=end, file=sys.stderr, flush=True)
    return show


def plan(options: argparse.Namespace) -> int:
    scenario = base_scenario(options)
    executable = options.bin.resolve() / scenario["platform"]
    if not os.access(executable, os.X_OK):
        raise PlanError(f"no platform executable '{scenario['platform']}' in {options.bin}")
    base = options.out / "base.yaml"
    with nothing_left(options.out, (base.name, EXPLAINED, COLLECTIVES)):
        text = yaml.safe_dump(scenario, sort_keys=False)
        if not base.exists() or base.read_text(encoding="utf-8") != text:
            written.text(base, text)
        try:
            facts = machine.facts_of(executable, base)
        except machine.MachineError as error:
            raise PlanError(f"{options.base}: {error}" if options.base else str(error)) from error
        explainer = Explainer(executable, base, options.out / EXPLAINED, options.jobs)
        question = machine.question(facts, scenario)
        question = replace(question, head_layers=explainer.head_layers(question))
        divided = space.divide(question, axes_of(question, options))
        if not divided.legal:
            reasons = "; ".join(f"{count}: {reason}" for reason, count in divided.refused.items())
            raise PlanError(f"no mapping is legal; refused: {reasons}")
        collectives = Collectives(executable, scenario, options.out / COLLECTIVES)
        at_host = host.host_of(executable, base) if space.OFFLOAD in options.allow else None
        estimator = Estimator(question, collectives, Pipelines(executable), at_host)

        def about(mappings: Iterable[space.Mapping], known: MappingOf[space.Mapping, Facts]) -> dict[space.Mapping, Facts]:
            return explainer.about(mappings, question, options.memory_limit, lambda mapping, found: estimator.estimate(mapping, found).step_s,
                                   options.top, progress("memory and kernels"), known)

        facts_of = about(divided.legal, {})
        savings.tried(divided, question, options.allow, facts_of, options.memory_limit, at_host, about)
        candidates = Candidates.of(question, options.memory_limit, facts_of, estimator)
        if not candidates.fit:
            saves = "" if set(options.allow) & set(space.SAVINGS) else f"; --allow {','.join(space.SAVINGS)} tries what saves memory"
            raise PlanError(candidates.nothing_fits() + saves)
        collectives.keep()
    chosen = candidates.best(options.top)
    named = references.references(question, divided.legal, candidates.fits, candidates.seconds, pathlib.Path(scenario["model"]["config"]).stem,
                                  facts.gpu)
    runs = simulate.Runs(options, base, question)
    done = runs.of([*chosen, *(mapping for _, mapping in named)])
    if not any(run.summary for run in done.values()):
        print(f"plan.py: error: no mapping could be simulated; {chosen[0].label}: {done[chosen[0]].error}", file=sys.stderr)
        return whole.NOT_ALL_DONE
    costs, what_if = runs.costs(done), {}
    if not options.no_what_if:
        changes = simulate.changes(facts, scenario)
        others = {change: candidates.with_workload(settings, runs.fastest(done), explainer, estimator) for change, settings in changes.items()
                  if any(key in settings for key in simulate.OF_WORKLOAD)}
        collectives.keep()
        what_if = runs.what_if(done, changes, others | {simulate.MEMORY_CHANGE: candidates.fits_into(simulate.MEMORY_FACTOR)})
    result = decision.Decision(scenario, facts, question, divided, candidates, done, named, what_if, costs, options.price)
    written.text(options.out / "decision.md", result.markdown())
    written.text(options.out / "decision.html", result.html())
    with written.table(options.out / "plan.csv") as file:
        csv.writer(file, lineterminator="\n").writerows(candidates.table(done))
    print(json.dumps(result.json(), indent=2) if options.json else result.text())
    return 0 if all(run.summary for run in done.values()) else whole.NOT_ALL_DONE


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    serves = words[:1] == ["serving"]
    options = None if serves else parse_options(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_line("plan.py", InputError, complete=True), one_line("plan.py", *REFUSALS), contextlib.suppress(BrokenPipeError):
            sys.exit(serving.plan(words[1:]) if serves else plan(options))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()

"""A scenario of workload.kind training, for scripts that begin with one.

The executable checks a scenario, so what is checked here is only what a script needs before it can ask the executable.
"""

import os

from . import yaml_source


def read(path: str | os.PathLike) -> dict:
    """The scenario as Python's values. @throws InputError naming file, line and column"""
    top = yaml_source.read(path)
    fields = {key: value for key, _, value in top.items("a scenario")}

    def section(name: str) -> dict[str, yaml_source.Value]:
        if name not in fields:
            raise top.wrong(f"{name}: is missing")
        return {key: value for key, _, value in fields[name].items(name)}

    if "platform" not in fields:
        raise top.wrong("platform: is missing")
    platform = fields["platform"].text("platform")
    if os.path.basename(platform) != platform:
        raise fields["platform"].wrong("platform: expected the name of an executable")
    workload = section("workload")
    kind = workload["kind"].text("workload.kind") if "kind" in workload else None
    if kind != "training":
        raise workload.get("kind", fields["workload"]).wrong(f"workload.kind is {kind}; accepted: training")
    if "software" in workload:
        workload["software"].text("workload.software")
    model = section("model")
    if "config" not in model:
        raise fields["model"].wrong("model.config: is missing")
    model["config"].text("model.config")
    return top.plain()

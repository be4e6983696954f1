"""What saves memory at the cost of time or precision (`--allow`): tried only where nothing fits without it.

Mappings of one shape (space.Mapping.shape) differ in micro-batch, ZeRO stage, schedule and the rest. Where none of a shape fits, savings are
tried from the least to the most. A saving that includes one that makes a mapping of the shape fit is not tried.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping as MappingOf
from dataclasses import replace

from .explain import Facts
from .host import Host
from .space import NO_SAVING, RULES, SAVINGS, Mapping, Question, Space, saving_of

HOST_IS_FULL = "what is offloaded does not fit into the memory of a CPU socket"
Saving = dict[str, int]  # how much of each key: 0 nothing, then the numbers of its values in SAVINGS
About = Callable[[Iterable[Mapping], MappingOf[Mapping, Facts]], dict[Mapping, Facts]]


def savings(features: Iterable[str]) -> list[Saving]:
    """All but nothing, from the least to the most."""
    values = {key: of_key for feature in SAVINGS if feature in features for key, of_key in SAVINGS[feature].items()}
    levels = itertools.product(*(range(len(of_key) + 1) for of_key in values.values()))
    return sorted((dict(zip(values, each)) for each in levels if any(each)), key=lambda saving: sum(saving.values()))


def _word(saving: Saving) -> str:
    values = {key: of_key for of_feature in SAVINGS.values() for key, of_key in of_feature.items()}
    return saving_of({key: values[key][level - 1] for key, level in saving.items() if level})


def _includes(saving: Saving, other: Saving) -> bool:
    return all(saving[key] >= level for key, level in other.items())


def fits(facts: Facts, limit: float, host: Host | None) -> bool:
    return not facts.error and facts.fits(limit) and (host is None or host.holds(facts))


def tried(divided: Space, question: Question, features: Iterable[str], known: dict[Mapping, Facts], limit: float, host: Host | None, about: About) -> None:
    """Adds mappings with savings to those of a space, and what the executable says of them.

    @param known  of the mappings without savings
    @param host   None: nothing is offloaded
    @param about  asks the executable, with what is known
    """
    plain = list(divided.legal)
    fitting: dict[tuple, list[Saving]] = {mapping.shape: [{}] for mapping in plain if mapping in known and fits(known[mapping], limit, host)}
    count = 0
    for saving in savings(features):
        wanted = []
        for mapping in plain:
            if any(_includes(saving, smaller) for smaller in fitting.get(mapping.shape, ())):
                continue
            count += 1
            changed = replace(mapping, saving=_word(saving))
            if wrong := next((text for text, is_wrong in RULES if is_wrong(changed, question)), None):
                divided.refused[wrong] += 1
            else:
                wanted.append(changed)
        found = about(wanted, known)
        full = {mapping for mapping, facts in found.items() if not facts.error and host is not None and not host.holds(facts)}
        if full:
            divided.refused[HOST_IS_FULL] += len(full)
        divided.legal += [mapping for mapping in wanted if mapping not in full]
        known.update((mapping, facts) for mapping, facts in found.items() if mapping not in full)
        for mapping, facts in found.items():
            if mapping not in full and fits(facts, limit, host) and saving not in fitting.setdefault(mapping.shape, []):
                fitting[mapping.shape].append(saving)
    divided.total += count


def without(mapping: Mapping) -> Mapping:
    return replace(mapping, saving=NO_SAVING)

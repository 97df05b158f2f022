"""What random fields are, for people: any clauses in any order, each once."""

from random import Random  # noqa: TID251 (seeded)

from tests.core.language.random_programs.worlds import quote_text

_WORDS = ["Mass", "of the battery", "Masse für alle ✓", "Μάζα", "{x}", "a -- b", '"quoted"', "50 %"]


def write_about(rng: Random) -> str:
    """An `about`, or nothing."""
    if rng.random() < 0.5:
        return ""

    def write_text() -> str:
        return quote_text(rng, " ".join(rng.sample(_WORDS, rng.randint(1, 3))))

    point = rng.choice(["", f"DP{rng.randint(1, 71)} ", f"DP0{rng.randint(1, 9)} ", f"DP43.{rng.randint(1, 6)} "])
    clauses = [f"{word} {write_text()}" for word in ("group", "cite", "unit", "help")]
    clauses += [f"{word} {code} {write_text()}" for word in ("label", "help") for code in ("de", "el", "mt")]
    clauses.append(f"order {rng.randint(0, 9_999)}")
    chosen = rng.sample(clauses, rng.choice([0, 1, 2, 4, len(clauses)]))
    return rng.choice([" ", "\n  "]).join(["", f"about {point}{write_text()}", *chosen])
